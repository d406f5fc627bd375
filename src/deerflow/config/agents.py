"""Keys about agents: helpers, skills, titles, compaction, memory, checking, batches."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from deerflow.config.models import rename
from deerflow.config.section import Count, Positive, Ratio, Seconds, Section, mapping

AT_ONCE = (2, 4)
"""Fewer children at once are no help, more overrun a provider's rate limits."""
BUILT_IN_CHILDREN = ("general-purpose", "bash")
"""Kinds of child that are there without any configuration."""


class SubagentTokenBudgetConfig(Section):
    """`subagents.token_budget`: what one child may use."""

    enabled: bool = Field(default=False, description="Enforce this budget.")
    max_tokens: Positive = Field(default=2_000_000, description="Tokens of a child.")
    max_input_tokens: Positive | None = Field(default=None, description="Input tokens of a child.")
    max_output_tokens: Positive = Field(default=1_000_000, description="Output tokens of a child.")
    warn: Ratio = Field(default=0.7, description="Share at which the child is warned.")

    @model_validator(mode="before")
    @classmethod
    def _older_names(cls, value: Any) -> Any:
        return rename(value, {"warn_threshold": "warn"})


class SubagentOverrideConfig(Section):
    """One entry of `subagents.agents`; null = the general value."""

    timeout_seconds: Seconds | None = Field(
        default=None, description="Seconds of this kind of child."
    )
    max_turns: Positive | None = Field(
        default=None, description="Model turns of this kind of child."
    )
    model: str | None = Field(default=None, description="Configured model; null = the lead's.")
    skills: tuple[str, ...] | None = Field(
        default=None, description="Skills it may use; null = all."
    )


class CustomSubagentConfig(SubagentOverrideConfig):
    """One entry of `subagents.custom_agents`."""

    description: str = Field(default="", description="When the lead should delegate to it.")
    system_prompt: str = Field(default="", description="What it is told.")
    tools: tuple[str, ...] | None = Field(
        default=None, description="Tools it may use; null = the lead's."
    )
    disallowed_tools: tuple[str, ...] = Field(default=(), description="Tools taken from it.")


class SubagentsConfig(Section):
    """`subagents`: children of a run, each with its own clock and turns."""

    enabled: bool = Field(default=True, description="Let the lead delegate.")
    timeout_seconds: Seconds = Field(default=900, description="Seconds of a child, from its start.")
    max_turns: Positive = Field(default=50, description="Model turns of a child.")
    max_concurrent: int = Field(
        default=3, ge=1, le=16, description="Children at once per run; 2 to 4 is what counts."
    )
    max_total_per_run: int = Field(default=6, ge=1, le=50, description="Children per run in all.")
    per_user: Positive = Field(default=6, description="Children at once per user.")
    global_: Positive = Field(
        default=32, alias="global", description="Children at once per process."
    )
    token_budget: SubagentTokenBudgetConfig = Field(
        default_factory=SubagentTokenBudgetConfig, description="What one child may use."
    )
    agents: dict[str, SubagentOverrideConfig] = Field(
        default_factory=dict[str, SubagentOverrideConfig], description="Changes by kind of child."
    )
    custom_agents: dict[str, CustomSubagentConfig] = Field(
        default_factory=dict[str, CustomSubagentConfig], description="Own kinds of child by name."
    )

    @field_validator("max_turns", mode="before")
    @classmethod
    def _turns(cls, value: Any) -> Any:
        return 50 if value is None else value


class AcpAgentConfig(Section):
    """One entry of `acp_agents`: a coding agent that runs on the host."""

    command: str = Field(description="Program.")
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: dict[str, str] = Field(default_factory=dict[str, str], description="Its environment.")
    description: str = Field(default="", description="When the lead should call it.")
    model: str | None = Field(default=None, description="Its model.")
    auto_approve_permissions: bool = Field(default=False, description="Grant what it asks for.")
    timeout_seconds: Seconds = Field(default=1800, description="Seconds of one call.")


class SkillsConfig(Section):
    """`skills`: where skills are and when they are loaded."""

    use: str = Field(default="local", description="local, or module:Class of a skill store.")
    path: str | None = Field(
        default=None, description="Folder of skills; null = the built-in ones."
    )
    container_path: str = Field(default="/mnt/skills", description="Where the agent sees them.")
    deferred_discovery: bool = Field(
        default=True, description="Load a skill only when it is needed."
    )


class SkillScanConfig(Section):
    """`skill_scan`: check a skill before it is installed."""

    enabled: bool = Field(default=True, description="Check skills before they are installed.")


class SkillEvolutionConfig(Section):
    """`skill_evolution`: let agents write skills."""

    enabled: bool = Field(default=False, description="Let agents write skills.")
    moderation_model_name: str | None = Field(default=None, description="Model that reviews them.")
    security_fail_closed: bool = Field(
        default=True, description="Refuse a skill when the review fails."
    )


class TitleConfig(Section):
    """`title`: the name of a thread."""

    enabled: bool = Field(default=True, description="Name threads after the first exchange.")
    max_words: Positive = Field(default=6, description="Longest title in words.")
    max_chars: Positive = Field(default=60, description="Longest title in characters.")
    model_name: str | None = Field(
        default=None, description="Model that writes it; null = derived without a model call."
    )
    prompt_template: str | None = Field(default=None, description="Own prompt for that model.")


class ContextSizeConfig(Section):
    """A size of the context: so many messages, tokens, or a share of the window."""

    type: Literal["messages", "tokens", "fraction"] = Field(description="Unit of value.")
    value: float = Field(gt=0, description="How many, or which share.")

    @model_validator(mode="after")
    def _in_range(self) -> ContextSizeConfig:
        if self.type == "fraction" and self.value > 1:
            raise ValueError("a fraction is at most 1")
        if self.type != "fraction" and self.value != int(self.value):
            raise ValueError(f"{self.type} must be a whole number")
        return self


class SummarizationConfig(Section):
    """`summarization`: compaction of a long conversation."""

    enabled: bool = Field(default=True, description="Compact long conversations.")
    model_name: str | None = Field(
        default=None, description="Model that summarises; null = the run's."
    )
    trigger: tuple[ContextSizeConfig, ...] | None = Field(
        default=None, description="Sizes at which it starts; null = a share of the model's window."
    )
    keep: ContextSizeConfig = Field(
        default_factory=lambda: ContextSizeConfig(type="messages", value=20),
        description="What stays word for word.",
    )
    trim_tokens_to_summarize: Positive | None = Field(
        default=4000, description="Tokens given to the summariser; null = all."
    )
    summary_prompt: str | None = Field(default=None, description="Own prompt for the summariser.")

    @field_validator("trigger", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return value if mapping(value) is None else [value]


class MemoryBackendConfig(Section):
    """`memory.backend_config`: how the memory is kept and extracted."""

    storage: str = Field(
        default="file", description="file, sql, or module:Class of a memory store."
    )
    storage_path: str | None = Field(
        default=None,
        description="Folder, with sql also a PostgreSQL address; null = below the home.",
    )
    max_wait_seconds: Seconds = Field(default=120, description="Longest wait of a queued exchange.")
    debounce_seconds: Count = Field(default=30, description="Quiet seconds before extraction.")
    model_name: str | None = Field(
        default=None, description="Model that extracts; null = the default."
    )
    max_facts: Positive = Field(default=100, description="Facts kept per user.")
    fact_confidence_threshold: Ratio = Field(
        default=0.7, description="Less certain facts are dropped."
    )
    max_injection_tokens: Positive = Field(
        default=2000, description="Tokens of memory in a prompt."
    )


_OLDER_MEMORY_KEYS = (
    "storage_path",
    "debounce_seconds",
    "model_name",
    "max_facts",
    "fact_confidence_threshold",
    "max_injection_tokens",
)


class MemoryConfig(Section):
    """`memory`: what is remembered between threads."""

    enabled: bool = Field(default=True, description="Remember between threads.")
    mode: Literal["middleware", "tool"] = Field(
        default="middleware", description="middleware = extracted after a run, tool = by the model."
    )
    injection_enabled: bool = Field(default=True, description="Show the memory to the model.")
    shutdown_flush_timeout_seconds: Seconds = Field(
        default=30, description="Seconds for pending memories at shutdown; the rest is done later."
    )
    manager_class: str = Field(default="deermem", description="deermem, noop, or module:Class.")
    backend_config: MemoryBackendConfig = Field(
        default_factory=MemoryBackendConfig, description="How it is kept and extracted."
    )

    @model_validator(mode="before")
    @classmethod
    def _older_place(cls, value: Any) -> Any:
        """The first 2.x files have the keys of backend_config beside `enabled`."""
        given = mapping(value)
        if given is None:
            return value
        raw = dict(given)
        backend = raw.get("backend_config")
        moved = {key: raw.pop(key) for key in _OLDER_MEMORY_KEYS if key in raw}
        if moved and (backend is None or mapping(backend) is not None):
            raw["backend_config"] = {**moved, **(backend or {})}
        return raw


class AgentsApiConfig(Section):
    """`agents_api`: routes that manage custom agents."""

    enabled: bool = Field(default=False, description="Serve them.")


class AgentStorageConfig(Section):
    """`agent_storage`: where custom agents are kept."""

    backend: Literal["file", "database", "db"] = Field(default="file", description="Where.")


class BatchConfig(Section):
    """`batch`: many items through one task."""

    max_items: Positive = Field(default=10_000, description="Items of one batch.")
    concurrency: Positive = Field(default=4, description="Items at once.")
