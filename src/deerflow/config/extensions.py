"""The key `extensions` and the file `extensions_config.json`: MCP servers, skills, middlewares."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deerflow.config.section import Count, Seconds, Section


class McpOAuthConfig(Section):
    """`mcpServers.*.oauth`: how a token is had."""

    enabled: bool = Field(default=True, description="Fetch tokens.")
    token_url: str = Field(default="", description="Address of the token endpoint.")
    grant_type: Literal["client_credentials", "refresh_token"] = Field(
        default="client_credentials", description="Which grant."
    )
    client_id: str | None = Field(default=None, description="Client id.")
    client_secret: str | None = Field(default=None, description="Client secret.")
    refresh_token: str | None = Field(default=None, description="Refresh token.")
    scope: str | None = Field(default=None, description="Scope.")
    audience: str | None = Field(default=None, description="Audience.")
    token_field: str = Field(default="access_token", description="Field of the token.")
    token_type_field: str = Field(default="token_type", description="Field of its type.")
    expires_in_field: str = Field(default="expires_in", description="Field of its life in seconds.")
    default_token_type: str = Field(default="Bearer", description="Type when none is given.")
    refresh_skew_seconds: Count = Field(default=60, description="Seconds that it is renewed early.")
    extra_token_params: dict[str, str] = Field(
        default_factory=dict[str, str], description="Further form fields."
    )


class McpRoutingConfig(Section):
    """`routing` of a server or a tool: when its tools are preferred."""

    mode: Literal["off", "prefer"] = Field(default="off", description="Prefer these tools or not.")
    priority: int = Field(default=0, description="Higher goes first.")
    keywords: tuple[str, ...] = Field(default=(), description="Words in a task that ask for them.")


class McpToolConfig(Section):
    """One entry of `mcpServers.*.tools`."""

    enabled: bool = Field(default=True, description="Offer this tool.")
    routing: McpRoutingConfig = Field(
        default_factory=McpRoutingConfig, description="When it is preferred."
    )


class McpTaskToolsetConfig(Section):
    """One entry of `mcpServers.*.task_toolsets`: three tools that make one long task."""

    name: str = Field(default="", description="Name of the task.")
    submit_tool: str = Field(default="", description="Tool that starts it.")
    status_tool: str = Field(default="", description="Tool that asks for its state.")
    cancel_tool: str = Field(default="", description="Tool that stops it.")


class McpServerConfig(Section):
    """One entry of `mcpServers`."""

    enabled: bool = Field(default=True, description="Use this server.")
    type: Literal["stdio", "sse", "http"] = Field(default="stdio", description="Transport.")
    command: str | None = Field(default=None, description="Program of a stdio server.")
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: dict[str, str] = Field(default_factory=dict[str, str], description="Its environment.")
    url: str | None = Field(default=None, description="Address of an http or sse server.")
    headers: dict[str, str] = Field(default_factory=dict[str, str], description="Headers sent.")
    description: str = Field(default="", description="One line for people.")
    oauth: McpOAuthConfig | None = Field(default=None, description="How a token is had.")
    routing: McpRoutingConfig = Field(
        default_factory=McpRoutingConfig, description="When its tools are preferred."
    )
    tools: dict[str, McpToolConfig] = Field(
        default_factory=dict[str, McpToolConfig], description="Changes by tool."
    )
    tool_name_prefix: bool = Field(
        default=True, description="Put the server's name before its tools'."
    )
    tool_call_timeout: Seconds | None = Field(default=None, description="Seconds of a call.")
    session_init_timeout: Seconds = Field(default=60, description="Seconds of start and handshake.")
    task_toolsets: tuple[McpTaskToolsetConfig, ...] = Field(default=(), description="Long tasks.")


class SkillStateConfig(Section):
    """One entry of `skills` in extensions_config.json."""

    enabled: bool = Field(default=True, description="Offer this skill.")


class ExtensionsConfig(Section):
    """`extensions`: middlewares named in config.yaml."""

    middlewares: tuple[str, ...] = Field(default=(), description="Own middlewares as module:Class.")


class ExtensionsFileConfig(Section):
    """The whole of `extensions_config.json`."""

    middlewares: tuple[str, ...] = Field(default=(), description="Own middlewares as module:Class.")
    mcp_interceptors: tuple[str, ...] = Field(
        default=(), alias="mcpInterceptors", description="Factories as module:name."
    )
    mcp_servers: dict[str, McpServerConfig] = Field(
        default_factory=dict[str, McpServerConfig],
        alias="mcpServers",
        description="MCP servers by name.",
    )
    skills: dict[str, SkillStateConfig] = Field(
        default_factory=dict[str, SkillStateConfig], description="Skills by name."
    )
