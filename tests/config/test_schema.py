"""The schema: every key of the format, frozen, described, strict, and silent about secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from deerflow.config import schema
from deerflow.config.load import load_config
from deerflow.config.schema import AppConfig, ModelConfig, SandboxConfig, SubagentsConfig
from deerflow.config.section import Section
from deerflow.config.structure import section_in

EVERY_KEY = """\
config_version: 34
log_level: info
logging: {enhance: {enabled: false, format: text}}
token_usage: {enabled: true}
token_budget: {enabled: false, max_tokens: 200000, max_input_tokens: null, max_output_tokens: null,
  warn: 0.8, hard: 1.0, run: null, user_day: null, money_day: null, currency: null}
plugins: []
max_recursion_limit: 1000
max_turns: 100
models:
  - {name: a, use: "langchain_openai:ChatOpenAI", model: m, display_name: A, supports_vision: true,
     pricing: {currency: USD, input: 1, output: 2, cached_input: null}, temperature: 0}
tools: [{name: t, group: g, use: "pkg.mod:tool", max_results: 3}]
tool_groups: [{name: g}]
tool_search: {enabled: false, auto_promote_top_k: 3}
tool_output: {enabled: true, externalize_min_chars: 12000, preview_head_chars: 2000,
  preview_tail_chars: 1000, fallback_max_chars: 30000, fallback_head_chars: 8000,
  fallback_tail_chars: 3000, storage_subdir: .tool-results,
  exempt_tools: [read_file, read_file_tool], tool_overrides: {}}
suggestions: {enabled: true, max_suggestions: 3}
input_polish: {enabled: true, max_chars: 4000, model_name: null}
loop_detection: {enabled: true, warn_threshold: 3, hard_limit: 5, window_size: 20,
  max_tracked_threads: 100, tool_freq_warn: 30, tool_freq_hard_limit: 50, tool_freq_overrides: {}}
tool_progress: {enabled: false}
read_before_write: {enabled: true}
safety_finish_reason: {enabled: true, detectors: null}
verify: false
uploads: {max_files: 10, max_file_size: 52428800, max_total_size: 104857600,
  auto_convert_documents: false, pdf_converter: auto}
sandbox: {use: local, allow_host_bash: false, image: null, port: 8080, replicas: 3,
  overflow_policy: wait, acquire_timeout: 30, burst_limit: 0, container_prefix: null,
  idle_timeout: 600, health_check_skip_seconds: null, ownership: {type: memory}, mounts: [],
  environment: {}, bash_output_max_chars: 20000, read_file_output_max_chars: 50000,
  ls_output_max_chars: 20000, bash_command_timeout: 600, provisioner_api_key: null,
  network: deny, uid_range: 61000-61999, python: {packages: [numpy]},
  limits: {memory_mb: 1024, pids: 256, file_mb: 512, disk_mb: 4096, seconds: 600}}
subagents: {timeout_seconds: 900, max_turns: null, max_total_per_run: 6, max_concurrent: 3,
  per_user: 6, global: 32, agents: {}, custom_agents: {},
  token_budget: {enabled: false, max_tokens: 2000000, max_output_tokens: 1000000, warn: 0.7}}
batch: {max_items: 10000, concurrency: 4}
acp_agents: {a: {command: x, args: [], env: {}, description: "", model: null,
  auto_approve_permissions: false, timeout_seconds: 1800}}
skills: {use: local, path: null, container_path: /mnt/skills, deferred_discovery: true}
skill_scan: {enabled: true}
skill_evolution: {enabled: false, moderation_model_name: null, security_fail_closed: true}
title: {enabled: true, max_words: 6, max_chars: 60, model_name: null}
summarization: {enabled: true, model_name: null, trigger: null, keep: {type: messages, value: 20},
  trim_tokens_to_summarize: 4000, summary_prompt: null}
memory: {enabled: true, mode: middleware, injection_enabled: true,
  shutdown_flush_timeout_seconds: 30, manager_class: deermem,
  backend_config: {storage: file, storage_path: null, max_wait_seconds: 120}}
agents_api: {enabled: false}
agent_storage: {backend: file}
database: {backend: sqlite, checkpoint_channel_mode: full, checkpoint_delta:
  {snapshot_frequency: 10}, checkpoint_graph_cache: 64, checkpoint_cache:
  {type: memory, max_entries: 128, ttl_seconds: 86400}, sqlite_dir: .deer-flow/data,
  postgres_url: null, pool_size: 5, pool_recycle: 300, command_timeout: 30, postgres_schema: ""}
checkpointer: {type: sqlite, connection_string: x.db, postgres_schema: ""}
dedupe_storage: {backend: auto}
run_events: {backend: memory, max_trace_content: 10240, track_token_usage: true}
stream_bridge: {type: redis, redis_url: "redis://x", queue_maxsize: 256, max_connections: null,
  stream_ttl_seconds: 86400, recovered_stream_cleanup_delay_seconds: 60}
runtime: {mode: gateway, workers: 1, lease_seconds: 10, retention_days: null}
run_ownership: {lease_seconds: 30, grace_seconds: 10, heartbeat_enabled: false}
scheduler: {enabled: false, multi_instance: false, poll_interval_seconds: 5, lease_seconds: 120,
  max_concurrent_runs: 3, min_once_delay_seconds: 60}
mcp_tasks: {enabled: false, poll_interval_seconds: 5, lease_seconds: 120, max_concurrent_polls: 8,
  max_backoff_seconds: 300, input_required_poll_seconds: 60, degraded_after: 3,
  max_result_bytes: 65536, result_preview_chars: 2000}
channel_connections: {enabled: false, require_bound_identity: true, slack: {enabled: false}}
channels: {slack: {bot_token: x, session: {model: a}}}
guardrails: {enabled: false, fail_closed: true, passport: null,
  provider: {use: allowlist, config: {allowed: [ls]}}}
authorization: {enabled: false, fail_closed: true, default_role: user, provider: null}
circuit_breaker: {failure_threshold: 5, recovery_timeout_sec: 60}
llm_call: {max_concurrent_calls: 0, retry_max_attempts: 3, retry_base_delay_ms: 1000,
  retry_cap_delay_ms: 8000, burst_retry_base_delay_ms: 5000, first_byte_timeout_seconds: 60,
  idle_timeout_seconds: 60}
auth: {local: {allow_registration: true}, oidc: {enabled: false, frontend_base_url: null,
  providers: {x: {display_name: X, issuer: "https://x", client_id: i, client_secret: s,
  redirect_uri: null, scopes: [openid, email, profile], auto_create_users: true,
  token_endpoint_auth_method: client_secret_post, require_verified_email: true,
  allowed_email_domains: [], admin_emails: [], pkce: true, nonce: true}}}}
extensions: {middlewares: []}
telemetry: {metrics: true, otlp_endpoint: null}
"""


def sections(section: type[Section], seen: set[type[Section]]) -> Iterator[type[Section]]:
    if section not in seen:
        seen.add(section)
        yield section
        for field in section.model_fields.values():
            inner = section_in(field.annotation)
            if inner is not None:
                yield from sections(inner, seen)


ALL = [*sections(AppConfig, set()), *sections(schema.ExtensionsFileConfig, set())]


def test_every_key_of_the_format_loads(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(EVERY_KEY)
    loaded = load_config(file, environ={}, cwd=tmp_path)
    assert loaded.unknown_keys == 0
    given = {line.split(":")[0] for line in EVERY_KEY.splitlines() if line[0].isalpha()}
    assert given == set(AppConfig.model_fields)


def test_our_defaults() -> None:
    config = AppConfig()
    assert config.database.backend == "sqlite"
    assert config.sandbox.use == "local"
    assert config.sandbox.network == "deny"
    assert config.sandbox.uids == range(61000, 62000)
    limits = config.sandbox.limits
    assert (limits.memory_mb, limits.pids, limits.file_mb, limits.disk_mb, limits.seconds) == (
        1024,
        256,
        512,
        4096,
        600,
    )
    assert config.summarization.enabled
    assert config.skills.deferred_discovery
    assert not config.auth.local.allow_registration
    assert config.max_turns == 100
    children = config.subagents
    assert (children.max_turns, children.timeout_seconds, children.max_concurrent) == (50, 900, 3)
    assert (children.per_user, children.global_) == (6, 32)
    assert (config.batch.max_items, config.batch.concurrency) == (10_000, 4)
    assert (config.runtime.mode, config.runtime.workers, config.runtime.lease_seconds) == (
        "gateway",
        1,
        10,
    )
    assert config.memory.backend_config.max_wait_seconds == 120
    assert config.llm_call.first_byte_timeout_seconds == 60
    assert config.llm_call.idle_timeout_seconds == 60


@pytest.mark.parametrize("section", ALL, ids=lambda section: section.__name__)
def test_every_section_is_frozen_and_every_key_described(section: type[Section]) -> None:
    assert section.model_config["frozen"] is True
    assert section.__doc__
    for name, field in section.model_fields.items():
        assert field.description, f"{section.__name__}.{name} has no description"
        assert field.description.endswith((".", ")")), f"{section.__name__}.{name}"


def test_every_section_is_importable_from_the_schema() -> None:
    missing = {section.__name__ for section in ALL} - set(schema.__all__) - {"Enhance"}
    assert missing == set()


def test_sections_are_frozen_in_fact() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        AppConfig().title.max_words = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_a_typo_in_code_is_refused() -> None:
    wrong: dict[str, Any] = {"netwrok": "deny"}
    with pytest.raises(ValidationError, match="Extra inputs"):
        SandboxConfig(**wrong)


def test_no_repr_shows_a_secret() -> None:
    model = ModelConfig(name="a", model="o:b", api_key="s3cret", **{"auth_token": "s3cret"})
    config = AppConfig(models=(model,))
    assert "s3cret" not in repr(config)
    assert "s3cret" not in str(config)
    assert "***" in repr(model)


def test_null_turns_of_children_mean_the_default() -> None:
    assert SubagentsConfig.model_validate({"max_turns": None}).max_turns == 50


def test_a_model_is_found_by_name() -> None:
    config = AppConfig(models=(ModelConfig(name="a", model="o:b"),))
    assert config.model("a") is config.models[0]
    assert config.model("b") is None


def test_first_memory_keys_move_into_backend_config() -> None:
    config = AppConfig.model_validate({"memory": {"max_facts": 7, "storage_path": "m"}})
    assert config.memory.backend_config.max_facts == 7
    assert config.memory.backend_config.storage_path == "m"


def test_the_shorter_of_two_command_limits_holds() -> None:
    assert SandboxConfig(bash_command_timeout=5).command_seconds == 5
