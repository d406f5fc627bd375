"""Sign-in with a password: accounts, sessions, the first admin."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, HTTPException
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deerflow.errors import AuthError, ConflictError, ForbiddenError, UsageError
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.address import same_site
from deerflow.gateway.auth.cookies import clear_cookies, set_cookies
from deerflow.gateway.auth.passwords import MAX_LENGTH, check_password
from deerflow.gateway.auth.people import email_of, new_person
from deerflow.gateway.auth.setup import allow_first, registration_open
from deerflow.gateway.deps import Caller, gateway_of, signed_in
from deerflow.gateway.wire import iso
from deerflow.storage.protocol import UserRow

router = APIRouter(prefix="/v1/auth", tags=["auth"])

Password = Annotated[str, Field(max_length=MAX_LENGTH)]
Email = Annotated[str, Field(max_length=254)]


async def access_of(request: Request) -> Access:
    """Sign-in of the process."""
    return Access.of(gateway_of(request))


async def from_our_pages(request: Request, access: Annotated[Access, Depends(access_of)]) -> None:
    """Calls that sign somebody in have no CSRF token yet: they must come from our own pages.

    Raises:
        ForbiddenError: a page of another site sent it.
    """
    if not same_site(request, access.process):
        raise ForbiddenError("This page belongs to another site.")


AccessOf = Annotated[Access, Depends(access_of)]
Who = Annotated[Caller, Depends(signed_in)]
OURS = [Depends(from_our_pages)]


class Credentials(BaseModel):
    """A new account."""

    email: Email
    password: Password
    remember_me: bool = False


class FirstAccount(Credentials):
    """The first admin. `token` is that of the setup link, needed from other machines."""

    token: str = Field(default="", max_length=200)


class PasswordChange(BaseModel):
    """A new password, and maybe a new address."""

    current_password: Password
    new_password: Password
    new_email: Email | None = None
    remember_me: bool = False


@router.get("/setup-status")
async def setup_status(request: Request, access: AccessOf) -> dict[str, bool]:
    """Whether the first account is still missing, and whether people may register."""
    if access.process.auth_disabled:
        return {"needs_setup": False, "registration_enabled": False}
    return {
        "needs_setup": not await access.accounts.has_admin(),
        "registration_enabled": await registration_open(access, request),
    }


@router.get("/me")
async def me(access: AccessOf, who: Who) -> dict[str, Any]:
    """Who is signed in."""
    found: dict[str, Any] = {"id": who.user_id, "email": who.email, "system_role": who.role}
    if who.kind == "open":
        return found | {"needs_setup": False}
    row = await access.accounts.user(who.user_id)
    if row is None:
        raise AuthError("The account is gone.", reason="user_not_found")
    found["needs_setup"] = bool(row.data.get("needs_setup", False))
    if row.data.get("oauth_provider"):
        found["oauth_provider"] = row.data["oauth_provider"]
    return found


@router.post("/login/local", dependencies=OURS)
async def login(
    request: Request,
    access: AccessOf,
    username: Annotated[str, Form(max_length=254)],
    password: Annotated[str, Form(max_length=MAX_LENGTH)],
    *,
    remember_me: Annotated[bool, Form()] = False,
) -> Response:
    """Sign in with e-mail address and password; sets the cookies of the session."""
    row = await _checked(request, access, username, password)
    if row.password is not None and access.passwords.outdated(row.password):
        row = replace(row, password=await access.passwords.hash(password))
        await access.accounts.change_user(row)
    await access.note("login", row.user_id, request)
    needs_setup = bool(row.data.get("needs_setup", False))
    return await _signed_in(
        request, access, row, {"needs_setup": needs_setup}, remember=remember_me
    )


@router.post("/register", status_code=201, dependencies=OURS)
async def register(request: Request, access: AccessOf, body: Credentials) -> Response:
    """Make an account of role user; only while registration is open."""
    if not await registration_open(access, request):
        raise _refused("registration_disabled", "Accounts are made by an admin here.")
    email, address = email_of(body.email), access.address(request)
    async with access.limits.attempt(f"REGISTER {address}", address):  # no account has capitals
        hash = await access.passwords.hash(body.password)
    row = new_person(email, hash, "user", registered=True)
    try:
        await access.accounts.add_user(row)
    except ConflictError as error:
        raise _taken("email_already_exists", "There is an account with this address.") from error
    await access.note("register", row.user_id, request)
    return await _signed_in(request, access, row, _person(row), remember=body.remember_me, new=True)


@router.post("/initialize", status_code=201, dependencies=OURS)
async def initialize(request: Request, access: AccessOf, body: FirstAccount) -> Response:
    """Make the first admin; exactly one call succeeds, ever."""
    known = "There is an admin already."
    if await access.accounts.has_admin():
        raise _taken("system_already_initialized", known)
    email = email_of(body.email)
    check_password(body.password)
    await allow_first(access, request, body.token)
    row = new_person(email, await access.passwords.hash(body.password), "admin")
    try:
        await access.accounts.add_user(row, first=True)
    except ConflictError as error:
        if await access.accounts.has_admin():
            raise _taken("system_already_initialized", known) from error
        raise _taken("email_already_exists", "There is an account with this address.") from error
    await access.note("initialize", row.user_id, request)
    return await _signed_in(request, access, row, _person(row), remember=body.remember_me, new=True)


@router.post("/change-password")
async def change_password(
    request: Request, access: AccessOf, who: Who, body: PasswordChange
) -> Response:
    """Set a new password; every session of the account ends, this browser gets a new one.

    Nobody has proved a new address, as with people who registered (see `identity.account_of`).
    """
    row = await _own_row(access, who)
    if row.password is None:
        raise UsageError("This account signs in elsewhere and has no password here.")
    await _checked(request, access, row.email, body.current_password)
    data = {key: value for key, value in row.data.items() if key != "needs_setup"}
    email = email_of(body.new_email) if body.new_email else row.email
    if email != row.email:
        if data.get("linked"):
            raise UsageError("This account's address is that of its sign-in elsewhere.")
        data["registered"] = True
    hash = await access.passwords.hash(body.new_password)
    row = replace(row, password=hash, email=email, data=data)
    try:
        await access.accounts.change_user(row)
    except ConflictError as error:
        raise _taken("email_already_exists", "There is an account with this address.") from error
    await access.sessions.end_all(row.user_id)
    await access.note("password_changed", row.user_id, request)
    body_out = {"message": "The password was changed."}
    return await _signed_in(request, access, row, body_out, remember=body.remember_me)


@router.post("/logout")
async def logout(request: Request, access: AccessOf, who: Who) -> Response:
    """End this session."""
    if who.kind == "session":
        await access.sessions.end(who.user_id, who.token_id)
        await access.note("logout", who.user_id, request)
    response = JSONResponse({"message": "Signed out."})
    clear_cookies(response, request, access)
    return response


async def _checked(request: Request, access: Access, email: str, password: str) -> UserRow:
    """The account that the password belongs to.

    Raises:
        AuthError: unknown, locked or wrong; the three are told apart by nobody.
        LimitError: too many attempts.
    """
    email, address = email.strip().lower(), access.address(request)
    async with access.limits.attempt(email, address):
        row = await access.accounts.by_email(email)
        right = await access.passwords.verify(row.password if row else None, password)
        if row is None or not right or not row.active:
            await access.limits.failed(address)
            await access.note("login_failed", row.user_id if row else "", request, target=email)
            raise AuthError("E-mail address or password is wrong.", reason="invalid_credentials")
    await access.limits.succeeded(email)
    return row


async def _own_row(access: Access, who: Caller) -> UserRow:
    if who.kind != "session":
        raise ForbiddenError("This needs a session in a browser.")
    row = await access.accounts.user(who.user_id)
    if row is None:
        raise AuthError("The account is gone.", reason="user_not_found")
    return row


async def _signed_in(
    request: Request,
    access: Access,
    row: UserRow,
    body: dict[str, Any],
    *,
    remember: bool,
    new: bool = False,
) -> Response:
    opened = await access.sessions.open(row, remember=remember)
    response = JSONResponse(body, status_code=201 if new else 200)
    set_cookies(response, request, access, opened)
    return response


def _person(row: UserRow) -> dict[str, Any]:
    return {
        "id": row.user_id,
        "email": row.email,
        "system_role": row.role,
        "needs_setup": False,
        "created_at": iso(row.created_at),
    }


def _taken(code: str, message: str) -> HTTPException:
    return HTTPException(409, {"code": code, "message": message})


def _refused(code: str, message: str) -> HTTPException:
    return HTTPException(403, {"code": code, "message": message})
