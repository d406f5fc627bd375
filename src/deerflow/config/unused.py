"""Keys that a 2.x file may hold and that have no effect here, each with the reason.

The list may only shrink: a part that begins to read a key takes it out.
"""

from __future__ import annotations

_CONTAINER = "containers are not supported; the local sandbox isolates without them"
_LATER = "not supported yet"

UNUSED: dict[str, str] = {
    "logging.enhance": _LATER,
    "plugins": _LATER,
    "max_recursion_limit": "runs are limited by model turns: use max_turns",
    "tool_groups": _LATER,
    "loop_detection.max_tracked_threads": "each run keeps its own record",
    "tool_progress": "loop_detection measures progress: use loop_detection",
    "sandbox.image": _CONTAINER,
    "sandbox.port": _CONTAINER,
    "sandbox.replicas": _CONTAINER,
    "sandbox.overflow_policy": _CONTAINER,
    "sandbox.acquire_timeout": _CONTAINER,
    "sandbox.burst_limit": _CONTAINER,
    "sandbox.container_prefix": _CONTAINER,
    "sandbox.idle_timeout": _CONTAINER,
    "sandbox.health_check_skip_seconds": _CONTAINER,
    "sandbox.ownership": _CONTAINER,
    "sandbox.auto_start": _CONTAINER,
    "sandbox.provisioner_url": _CONTAINER,
    "sandbox.provisioner_api_key": _CONTAINER,
    "acp_agents": _LATER,
    "skills.container_path": "skills are always at /mnt/skills",
    "skill_scan": _LATER,
    "skill_evolution": _LATER,
    "agent_storage": _LATER,
    "database.checkpoint_channel_mode": "messages are always stored as deltas",
    "database.checkpoint_delta": "snapshots are thinned by age",
    "database.checkpoint_graph_cache": _LATER,
    "checkpointer": "use database",
    "dedupe_storage": _LATER,
    "run_events.backend": "the event log is always durable",
    "run_events.max_trace_content": _LATER,
    "run_events.track_token_usage": "usage is always in the log",
    "stream_bridge.queue_maxsize": "a slow client goes on from the database",
    "stream_bridge.stream_ttl_seconds": "events are kept in the database",
    "stream_bridge.recovered_stream_cleanup_delay_seconds": "events are kept in the database",
    "run_ownership": "use runtime.lease_seconds",
    "scheduler.multi_instance": "instances share the work anyway",
    "scheduler.lease_seconds": "an occurrence is entered by one process without a claim",
    "mcp_tasks": _LATER,
    "channel_connections": _LATER,
    "channels": _LATER,
    "authorization": _LATER,
}
"""Dotted key → why it has no effect. Reported only when it differs from the default."""
