"""The whole configuration: one frozen class per YAML key, in YAML order, all importable here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from deerflow.config.access import (
    AuthConfig,
    AuthorizationConfig,
    ChannelConnectionConfig,
    ChannelConnectionsConfig,
    GuardrailsConfig,
    LocalAuthConfig,
    OidcConfig,
    OidcProviderConfig,
    ProviderConfig,
)
from deerflow.config.agents import (
    AcpAgentConfig,
    AgentsApiConfig,
    AgentStorageConfig,
    BatchConfig,
    ContextSizeConfig,
    CustomSubagentConfig,
    MemoryBackendConfig,
    MemoryConfig,
    SkillEvolutionConfig,
    SkillScanConfig,
    SkillsConfig,
    SubagentOverrideConfig,
    SubagentsConfig,
    SubagentTokenBudgetConfig,
    SummarizationConfig,
    TitleConfig,
)
from deerflow.config.extensions import (
    ExtensionsConfig,
    ExtensionsFileConfig,
    McpOAuthConfig,
    McpRoutingConfig,
    McpServerConfig,
    McpTaskToolsetConfig,
    McpToolConfig,
    SkillStateConfig,
)
from deerflow.config.models import (
    CircuitBreakerConfig,
    LlmCallConfig,
    ModelConfig,
    PricingConfig,
    TokenBudgetConfig,
    TokenUsageConfig,
)
from deerflow.config.sandbox import (
    SandboxConfig,
    SandboxLimitsConfig,
    SandboxMountConfig,
    SandboxOwnershipConfig,
    SandboxPythonConfig,
)
from deerflow.config.section import Count, OpenSection, Positive, Section
from deerflow.config.storage import (
    CheckpointCacheConfig,
    CheckpointDeltaConfig,
    CheckpointerConfig,
    DatabaseConfig,
    DedupeStorageConfig,
    LoggingConfig,
    McpTasksConfig,
    RunEventsConfig,
    RunOwnershipConfig,
    RuntimeConfig,
    SchedulerConfig,
    StreamBridgeConfig,
    TelemetryConfig,
)
from deerflow.config.tools import (
    InputPolishConfig,
    LoopDetectionConfig,
    ReadBeforeWriteConfig,
    SafetyDetectorConfig,
    SafetyFinishReasonConfig,
    SuggestionsConfig,
    ToolConfig,
    ToolFrequencyLimits,
    ToolGroupConfig,
    ToolOutputConfig,
    ToolOutputLimits,
    ToolProgressConfig,
    ToolSearchConfig,
    UploadsConfig,
)

__all__ = [
    "AcpAgentConfig",
    "AgentStorageConfig",
    "AgentsApiConfig",
    "AppConfig",
    "AuthConfig",
    "AuthorizationConfig",
    "BatchConfig",
    "CONFIG_VERSION",
    "ChannelConnectionConfig",
    "ChannelConnectionsConfig",
    "CheckpointCacheConfig",
    "CheckpointDeltaConfig",
    "CheckpointerConfig",
    "CircuitBreakerConfig",
    "ContextSizeConfig",
    "CustomSubagentConfig",
    "DatabaseConfig",
    "DedupeStorageConfig",
    "ExtensionsConfig",
    "ExtensionsFileConfig",
    "GuardrailsConfig",
    "InputPolishConfig",
    "LlmCallConfig",
    "LocalAuthConfig",
    "LoggingConfig",
    "LoopDetectionConfig",
    "McpOAuthConfig",
    "McpRoutingConfig",
    "McpServerConfig",
    "McpTaskToolsetConfig",
    "McpTasksConfig",
    "McpToolConfig",
    "MemoryBackendConfig",
    "MemoryConfig",
    "ModelConfig",
    "OidcConfig",
    "OidcProviderConfig",
    "OpenSection",
    "PricingConfig",
    "ProviderConfig",
    "ReadBeforeWriteConfig",
    "RunEventsConfig",
    "RunOwnershipConfig",
    "RuntimeConfig",
    "SafetyDetectorConfig",
    "SafetyFinishReasonConfig",
    "SandboxConfig",
    "SandboxLimitsConfig",
    "SandboxMountConfig",
    "SandboxOwnershipConfig",
    "SandboxPythonConfig",
    "SchedulerConfig",
    "Section",
    "SkillEvolutionConfig",
    "SkillScanConfig",
    "SkillStateConfig",
    "SkillsConfig",
    "StreamBridgeConfig",
    "SubagentOverrideConfig",
    "SubagentTokenBudgetConfig",
    "SubagentsConfig",
    "SuggestionsConfig",
    "SummarizationConfig",
    "TelemetryConfig",
    "TitleConfig",
    "TokenBudgetConfig",
    "TokenUsageConfig",
    "ToolConfig",
    "ToolFrequencyLimits",
    "ToolGroupConfig",
    "ToolOutputConfig",
    "ToolOutputLimits",
    "ToolProgressConfig",
    "ToolSearchConfig",
    "UploadsConfig",
]

CONFIG_VERSION = 34
"""Version of the file format that this schema reads (2.x files carry it as config_version)."""


class AppConfig(Section):
    """The whole of config.yaml; `AppConfig()` is the embedded default."""

    config_version: Count = Field(
        default=CONFIG_VERSION, description="Version of this file's format."
    )
    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="Least severity that is logged."
    )
    logging: LoggingConfig = Field(default_factory=LoggingConfig, description="Log lines.")
    token_usage: TokenUsageConfig = Field(
        default_factory=TokenUsageConfig, description="Count tokens by model and by caller."
    )
    token_budget: TokenBudgetConfig = Field(
        default_factory=TokenBudgetConfig, description="What a run, a user or a day may use."
    )
    plugins: tuple[str | dict[str, Any], ...] = Field(
        default=(), description="Plugins as module:Class."
    )
    max_recursion_limit: Positive = Field(
        default=1000, description="Accepted; runs are limited by max_turns, not by graph steps."
    )
    max_turns: Positive = Field(default=100, description="Model turns of a run.")
    models: tuple[ModelConfig, ...] = Field(
        default=(), description="Models in order; the first is the default; empty = look for one."
    )
    tools: tuple[ToolConfig, ...] = Field(default=(), description="Tools beside the built-in ones.")
    tool_groups: tuple[ToolGroupConfig, ...] = Field(default=(), description="Groups of tools.")
    tool_search: ToolSearchConfig = Field(
        default_factory=ToolSearchConfig, description="Hide rarely needed tools."
    )
    tool_output: ToolOutputConfig = Field(
        default_factory=ToolOutputConfig, description="Long results go to a file."
    )
    suggestions: SuggestionsConfig = Field(
        default_factory=SuggestionsConfig, description="Follow-up questions."
    )
    input_polish: InputPolishConfig = Field(
        default_factory=InputPolishConfig, description="Rewrite a draft on request."
    )
    loop_detection: LoopDetectionConfig = Field(
        default_factory=LoopDetectionConfig, description="Refuse calls that bring nothing new."
    )
    tool_progress: ToolProgressConfig = Field(
        default_factory=ToolProgressConfig, description="Accepted; loop_detection does this."
    )
    read_before_write: ReadBeforeWriteConfig = Field(
        default_factory=ReadBeforeWriteConfig, description="Read a file before overwriting it."
    )
    safety_finish_reason: SafetyFinishReasonConfig = Field(
        default_factory=SafetyFinishReasonConfig, description="Answers that the provider cut."
    )
    verify: bool = Field(default=False, description="Check the answer before it is given.")
    uploads: UploadsConfig = Field(default_factory=UploadsConfig, description="Uploaded files.")
    sandbox: SandboxConfig = Field(
        default_factory=SandboxConfig, description="Where the agent's commands run."
    )
    subagents: SubagentsConfig = Field(
        default_factory=SubagentsConfig, description="Children of a run."
    )
    batch: BatchConfig = Field(default_factory=BatchConfig, description="Many items, one task.")
    acp_agents: dict[str, AcpAgentConfig] = Field(
        default_factory=dict[str, AcpAgentConfig], description="Coding agents on the host by name."
    )
    skills: SkillsConfig = Field(default_factory=SkillsConfig, description="Skills.")
    skill_scan: SkillScanConfig = Field(
        default_factory=SkillScanConfig, description="Check skills before they are installed."
    )
    skill_evolution: SkillEvolutionConfig = Field(
        default_factory=SkillEvolutionConfig, description="Let agents write skills."
    )
    title: TitleConfig = Field(default_factory=TitleConfig, description="Names of threads.")
    summarization: SummarizationConfig = Field(
        default_factory=SummarizationConfig, description="Compaction of long conversations."
    )
    memory: MemoryConfig = Field(
        default_factory=MemoryConfig, description="What is remembered between threads."
    )
    agents_api: AgentsApiConfig = Field(
        default_factory=AgentsApiConfig, description="Routes that manage custom agents."
    )
    agent_storage: AgentStorageConfig = Field(
        default_factory=AgentStorageConfig, description="Where custom agents are kept."
    )
    database: DatabaseConfig = Field(
        default_factory=DatabaseConfig, description="Where everything is kept."
    )
    checkpointer: CheckpointerConfig | None = Field(
        default=None, description="Replaced by database."
    )
    dedupe_storage: DedupeStorageConfig = Field(
        default_factory=DedupeStorageConfig, description="Repeated chat messages."
    )
    run_events: RunEventsConfig = Field(
        default_factory=RunEventsConfig, description="The event log; always durable."
    )
    stream_bridge: StreamBridgeConfig | None = Field(
        default=None, description="How other processes hear of events; null = through the database."
    )
    runtime: RuntimeConfig = Field(default_factory=RuntimeConfig, description="Who executes runs.")
    run_ownership: RunOwnershipConfig = Field(
        default_factory=RunOwnershipConfig, description="Replaced by runtime.lease_seconds."
    )
    scheduler: SchedulerConfig = Field(
        default_factory=SchedulerConfig, description="Tasks that run at a time."
    )
    mcp_tasks: McpTasksConfig = Field(
        default_factory=McpTasksConfig, description="Long tasks of MCP servers."
    )
    channel_connections: ChannelConnectionsConfig = Field(
        default_factory=ChannelConnectionsConfig, description="Users' own chat accounts."
    )
    channels: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Chat apps by name, with their credentials."
    )
    guardrails: GuardrailsConfig = Field(
        default_factory=GuardrailsConfig, description="A decision before each tool call."
    )
    authorization: AuthorizationConfig = Field(
        default_factory=AuthorizationConfig, description="Roles of users."
    )
    circuit_breaker: CircuitBreakerConfig = Field(
        default_factory=CircuitBreakerConfig, description="When a failing model is left alone."
    )
    llm_call: LlmCallConfig = Field(
        default_factory=LlmCallConfig, description="Retries and limits of a model call."
    )
    auth: AuthConfig = Field(default_factory=AuthConfig, description="How people sign in.")
    extensions: ExtensionsConfig = Field(
        default_factory=ExtensionsConfig, description="Own middlewares."
    )
    telemetry: TelemetryConfig = Field(
        default_factory=TelemetryConfig, description="Figures for operators."
    )

    def model(self, name: str) -> ModelConfig | None:
        """The entry of `models` with this name, or None."""
        return next((entry for entry in self.models if entry.name == name), None)
