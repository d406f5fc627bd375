"""Keys about what is kept and who works on it: database, log, runtime, schedules."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deerflow.config.section import Count, Positive, Seconds, Section


class RuntimeConfig(Section):
    """`runtime`: who executes runs."""

    mode: Literal["gateway", "standard"] = Field(
        default="gateway",
        description="gateway = our own workers execute runs, standard = a LangGraph Server does.",
    )
    workers: Positive = Field(default=1, description="Worker processes of `deerflow serve`.")
    concurrent_runs: Positive = Field(default=100, description="Runs at once in a worker.")
    user_runs: Positive = Field(default=50, description="Runs at once of one user.")
    langgraph_url: str = Field(
        default="http://127.0.0.1:2024", description="Address of the server in mode standard."
    )
    lease_seconds: Seconds = Field(
        default=10, description="Silence after which a worker counts as dead."
    )
    retention_days: Positive | None = Field(
        default=None,
        description="Days after which a thread is removed that nobody used, unless it is pinned.",
    )
    webhook_secret: str | None = Field(
        default=None,
        description="Signs webhooks, best as $VARIABLE; null = one is made, in the database.",
    )
    webhook_hosts: tuple[str, ...] = Field(
        default=(),
        description="Inner hosts, addresses or networks that webhooks may call; others are public.",
    )


class CheckpointDeltaConfig(Section):
    """`database.checkpoint_delta`: how often a delta chain is closed by a snapshot."""

    snapshot_frequency: Positive = Field(default=50, description="Deltas between two snapshots.")


class CheckpointCacheConfig(Section):
    """`database.checkpoint_cache`: read cache of checkpoints."""

    type: Literal["memory", "redis", "none"] = Field(default="memory", description="Where.")
    max_entries: Positive = Field(default=128, description="Threads kept in it.")
    ttl_seconds: Positive = Field(default=86_400, description="Seconds until an entry goes.")
    redis_url: str | None = Field(default=None, description="Address for type redis.")


class DatabaseConfig(Section):
    """`database`: SQLite by default, Postgres for many processes."""

    backend: Literal["sqlite", "postgres", "memory"] = Field(
        default="sqlite", description="Which one."
    )
    checkpoint_channel_mode: Literal["full", "delta"] = Field(
        default="delta", description="Accepted; messages are stored as deltas either way."
    )
    checkpoint_delta: CheckpointDeltaConfig = Field(
        default_factory=CheckpointDeltaConfig, description="Snapshots between deltas."
    )
    checkpoint_graph_cache: Count = Field(default=64, description="Compiled agents kept in memory.")
    checkpoint_cache: CheckpointCacheConfig = Field(
        default_factory=CheckpointCacheConfig, description="Read cache of checkpoints."
    )
    sqlite_dir: str | None = Field(default=None, description="Folder; null = data below the home.")
    postgres_url: str | None = Field(default=None, description="Address for backend postgres.")
    pool_size: Positive = Field(default=5, description="Connections kept open.")
    pool_recycle: Positive = Field(
        default=300, description="Seconds until a connection is renewed."
    )
    command_timeout: Seconds = Field(default=30, description="Seconds of one statement.")
    postgres_schema: str = Field(
        default="", description="Schema of the tables; empty = the default."
    )


class CheckpointerConfig(Section):
    """`checkpointer`: replaced by `database`."""

    type: Literal["memory", "sqlite", "postgres"] = Field(description="Kind of store.")
    connection_string: str | None = Field(default=None, description="File or address.")
    postgres_schema: str = Field(default="", description="Schema of the tables.")


class DedupeStorageConfig(Section):
    """`dedupe_storage`: where messages of chat apps are recognised again."""

    backend: Literal["auto", "memory", "database", "redis"] = Field(
        default="auto", description="Where."
    )


class RunEventsConfig(Section):
    """`run_events`: the event log; always durable."""

    backend: Literal["database", "memory", "db", "jsonl"] = Field(
        default="database", description="Accepted; the log is in the database either way."
    )
    max_trace_content: Positive = Field(
        default=10_240, description="Longest text of a trace event."
    )
    track_token_usage: bool = Field(default=True, description="Write usage into the log.")


class StreamBridgeConfig(Section):
    """`stream_bridge`: how other processes hear of new events."""

    type: Literal["memory", "redis"] = Field(
        default="memory", description="Within a process, or Redis."
    )
    redis_url: str | None = Field(default=None, description="Address for type redis.")
    queue_maxsize: Positive = Field(default=256, description="Events that wait for a slow client.")
    max_connections: Positive | None = Field(default=None, description="Connections to Redis.")
    stream_ttl_seconds: Positive = Field(
        default=86_400, description="Seconds that Redis keeps a stream."
    )
    recovered_stream_cleanup_delay_seconds: Count = Field(
        default=60, description="Seconds that a recovered stream is kept."
    )


class RunOwnershipConfig(Section):
    """`run_ownership`: replaced by runtime.lease_seconds."""

    lease_seconds: Seconds = Field(default=30, description="Seconds of a lease.")
    grace_seconds: Seconds = Field(default=10, description="Seconds after it.")
    heartbeat_enabled: bool = Field(default=False, description="Renew leases.")


class SchedulerConfig(Section):
    """`scheduler`: tasks that run at a time."""

    enabled: bool = Field(default=False, description="Run scheduled tasks.")
    multi_instance: bool = Field(default=False, description="Accepted.")
    poll_interval_seconds: Seconds = Field(default=5, description="Seconds between two looks.")
    lease_seconds: Seconds = Field(default=120, description="Seconds of a claim.")
    max_concurrent_runs: Positive = Field(default=3, description="Scheduled runs at once.")
    min_once_delay_seconds: Count = Field(
        default=60, description="Shortest delay of a single task."
    )


class McpTasksConfig(Section):
    """`mcp_tasks`: long tasks of MCP servers."""

    enabled: bool = Field(default=False, description="Follow long tasks.")
    poll_interval_seconds: Seconds = Field(default=5, description="Seconds between two questions.")
    lease_seconds: Seconds = Field(default=120, description="Seconds of a claim.")
    max_concurrent_polls: Positive = Field(default=8, description="Questions at once.")
    max_backoff_seconds: Seconds = Field(default=300, description="Longest delay after failures.")
    input_required_poll_seconds: Seconds = Field(
        default=60, description="Delay while input is awaited."
    )
    degraded_after: Positive = Field(
        default=3, description="Failures until a task counts as degraded."
    )
    max_result_bytes: Positive = Field(default=65_536, description="Largest result.")
    result_preview_chars: Positive = Field(default=2000, description="Characters of it shown.")


class TelemetryConfig(Section):
    """`telemetry`: figures for operators."""

    metrics: bool = Field(default=True, description="Count and serve metrics.")
    otlp_endpoint: str | None = Field(
        default=None, description="Where traces are sent; null = nowhere."
    )


class LoggingConfig(Section):
    """`logging`: form of the log lines."""

    class Enhance(Section):
        """`logging.enhance`: richer log lines."""

        enabled: bool = Field(default=False, description="Add run and thread to each line.")
        format: Literal["text", "json"] = Field(
            default="text", description="Lines of text or JSON."
        )

    enhance: Enhance = Field(default_factory=Enhance, description="Richer log lines.")
