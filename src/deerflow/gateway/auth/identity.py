"""From a provider's identity to an account: found, linked or made; never by a mere claim."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deerflow.config.access import OidcProviderConfig
from deerflow.errors import AuthError, ConflictError, UsageError
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.people import email_of, new_person
from deerflow.storage.protocol import UserRow


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that was begun: what the answer has to fit to."""

    nonce: str
    verifier: str
    redirect_uri: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the provider says it is.

    Attributes:
        issuer: address of the provider.
        subject: its name of the person; together with `issuer` it never means somebody else.
        email: lower case, "" when it tells none.
        verified: whether it says that the address is theirs.
    """

    issuer: str
    subject: str
    email: str
    verified: bool


async def account_of(
    access: Access, name: str, config: OidcProviderConfig, who: Identity
) -> UserRow:
    """The account of somebody who signed in at a provider.

    An account that exists is linked when the provider says that the address is verified. One that
    somebody registered here by themselves, or gave this address later, loses its password and
    sessions then, for nobody has proved that the address was theirs.

    Args:
        access: sign-in of the process.
        name: id of the provider.
        config: its section.
        who: as the ID token says.

    Raises:
        AuthError: not allowed here; `reason` says why.
    """
    row = await access.accounts.linked(who.issuer, who.subject)
    if row is not None:
        if not row.active:
            raise AuthError("The account is locked.", reason="account_locked")
        return await _promoted(access, config, who, row)
    email = _allowed_email(config, who)
    row = await access.accounts.by_email(email)
    if row is None:
        row = await _made(access, name, config, email)
    elif not who.verified:
        text = "There is an account with this address, and the provider has not verified it."
        raise AuthError(text, reason="email_already_exists")
    elif not row.active:
        raise AuthError("The account is locked.", reason="account_locked")
    elif row.data.get("registered"):
        data = {key: value for key, value in row.data.items() if key != "registered"}
        row = replace(row, password=None, data={**data, "oauth_provider": name})
        await access.accounts.change_user(row)
        await access.sessions.end_all(row.user_id, kind=None)
    else:  # it keeps its password, and its address from now on
        row = replace(row, data={**row.data, "linked": True})
        await access.accounts.change_user(row)
    await access.accounts.link(who.issuer, who.subject, row.user_id)
    return await _promoted(access, config, who, row)


def _allowed_email(config: OidcProviderConfig, who: Identity) -> str:
    try:
        email = email_of(who.email)
    except UsageError as error:
        raise AuthError("The provider tells no e-mail address.", reason="email_missing") from error
    if config.require_verified_email and not who.verified:
        text = "The provider has not verified the e-mail address."
        raise AuthError(text, reason="email_not_verified")
    domains = {domain.lower().lstrip("@") for domain in config.allowed_email_domains}
    if domains and email.rpartition("@")[2] not in domains:
        raise AuthError("This e-mail domain is not allowed.", reason="domain_not_allowed")
    return email


async def _made(access: Access, name: str, config: OidcProviderConfig, email: str) -> UserRow:
    if not config.auto_create_users:
        raise AuthError("There is no account for this address.", reason="user_not_found")
    row = new_person(email, None, "user", oauth_provider=name)
    try:
        await access.accounts.add_user(row)
    except ConflictError as error:  # the same person in another window
        raise AuthError("Sign in again.", reason="email_already_exists") from error
    return row


async def _promoted(
    access: Access, config: OidcProviderConfig, who: Identity, row: UserRow
) -> UserRow:
    """An admin by configuration; the address must be verified, and the account's own."""
    admins = {email.strip().lower() for email in config.admin_emails}
    if row.role == "admin" or not who.verified or who.email not in admins:
        return row
    row = replace(row, role="admin")
    await access.accounts.change_user(row)
    return row
