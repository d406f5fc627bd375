"""Keys about who may do what: policies, sign-in, chat apps."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from deerflow.config.section import OpenSection, Section


class ProviderConfig(Section):
    """A provider of policy decisions."""

    use: str = Field(description="allowlist, oap, or module:Class.")
    config: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Keyword arguments of its constructor."
    )


class GuardrailsConfig(Section):
    """`guardrails`: a decision before each tool call."""

    enabled: bool = Field(default=False, description="Ask the provider before each tool call.")
    fail_closed: bool = Field(default=True, description="Deny when the provider fails.")
    passport: str | None = Field(default=None, description="Open Agent Passport: id or file.")
    provider: ProviderConfig | None = Field(default=None, description="Who decides.")


class AuthorizationConfig(Section):
    """`authorization`: roles of users."""

    enabled: bool = Field(default=False, description="Check roles.")
    fail_closed: bool = Field(default=True, description="Deny when the provider fails.")
    default_role: str = Field(default="user", description="Role of a new user.")
    provider: ProviderConfig | None = Field(default=None, description="Who decides.")


class LocalAuthConfig(Section):
    """`auth.local`: accounts with a password."""

    allow_registration: bool = Field(
        default=False, description="Let people register once an admin exists."
    )


class OidcProviderConfig(Section):
    """One entry of `auth.oidc.providers`."""

    display_name: str = Field(default="", description="Text of the button.")
    issuer: str = Field(description="Address of the issuer.")
    client_id: str = Field(description="Client id.")
    client_secret: str | None = Field(default=None, description="Client secret, best as $VARIABLE.")
    redirect_uri: str | None = Field(default=None, description="Return address; null = derived.")
    scopes: tuple[str, ...] = Field(default=("openid", "email", "profile"), description="Scopes.")
    token_endpoint_auth_method: Literal["client_secret_post", "client_secret_basic", "none"] = (
        Field(default="client_secret_post", description="How the client proves itself.")
    )
    auto_create_users: bool = Field(default=True, description="Create accounts at first sign-in.")
    require_verified_email: bool = Field(default=True, description="Refuse unverified addresses.")
    allowed_email_domains: tuple[str, ...] = Field(default=(), description="Domains; empty = all.")
    admin_emails: tuple[str, ...] = Field(default=(), description="Who becomes admin.")
    pkce: bool = Field(default=True, description="Use PKCE.")
    nonce: bool = Field(default=True, description="Use a nonce.")


class OidcConfig(Section):
    """`auth.oidc`: sign-in by other parties."""

    enabled: bool = Field(default=False, description="Offer it.")
    frontend_base_url: str | None = Field(default=None, description="Address of the web UI.")
    providers: dict[str, OidcProviderConfig] = Field(
        default_factory=dict[str, OidcProviderConfig], description="Parties by id."
    )


class AuthConfig(Section):
    """`auth`: how people sign in."""

    local: LocalAuthConfig = Field(
        default_factory=LocalAuthConfig, description="Accounts with a password."
    )
    oidc: OidcConfig = Field(default_factory=OidcConfig, description="Sign-in by other parties.")


class ChannelConnectionConfig(OpenSection):
    """One provider in `channel_connections`; further keys belong to it."""

    enabled: bool = Field(default=False, description="Offer this chat app.")


class ChannelConnectionsConfig(OpenSection):
    """`channel_connections`: users bind their chat accounts; each further key is a chat app."""

    enabled: bool = Field(default=False, description="Let users connect chat apps.")
    require_bound_identity: bool = Field(default=True, description="Answer bound accounts only.")
