"""Open Agent Passport: a JSON file says what an agent may do, and within which limits.

Source of the fields: the public specification oap/1.0 (working draft), "Core Objects" and its
capability registry. What is checked is listed in docs/concepts/guardrails.md; a limit that is not
known here denies, for a promise that nobody keeps would be worse.
"""

from __future__ import annotations

import asyncio
import datetime
import errno
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from deerflow.errors import ConfigError
from deerflow.guardrails.allowlist import matches, read_rules, texts, verdict_of
from deerflow.guardrails.protocol import Action, Verdict

CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "system.command.execute": ("bash", "python"),
    "data.file.read": ("read_file", "ls", "glob", "grep", "view_image"),
    "data.file.write": ("write_file", "str_replace"),
    "web.fetch": ("web_fetch", "web_search", "image_search"),
    "web.browser": ("web_capture", "browser_*"),
    "agent.session.create": ("task", "task_batch"),
}
"""Registered capability → tools that need it; the configuration's `tools` adds to it."""

FREE = ("ask_clarification", "write_todos", "present_files", "calculator", "tool_search")
"""Tools without an effect outside the conversation; no capability is needed."""

FILE_LIMIT = 1_048_576
"""Bytes of a passport file."""
RATE = "max_calls_per_minute"
_MINUTE = datetime.timedelta(minutes=1)
_STATUS = ("draft", "active", "suspended", "revoked")


@dataclass(frozen=True, slots=True)
class Passport:
    """What of a passport is looked at.

    Attributes:
        ident: passport_id.
        status: draft, active, suspended or revoked; only active permits anything.
        expires: UTC, None for never.
        tools: capability → globs of its own in `params.tools`, () for the usual tools.
        limits: capability → limit → value.
    """

    ident: str
    status: str
    expires: datetime.datetime | None
    tools: dict[str, tuple[str, ...]]
    limits: dict[str, dict[str, Any]]


class OapProvider:
    """Reads the passport anew whenever its file has changed, so that a revocation holds at once.

    Args:
        file: the passport, see `passport_file`.
        tools: capability → tool names or globs, beside the usual ones.
        free_tools: names or globs that need no capability.
        ignored_limits: limits that something else enforces.
        rules: as of the allowlist; on what the passport permits, those that deny or ask hold.
        clock: the present time.

    Raises:
        ConfigError: the passport is missing or broken, or a setting is wrong.
    """

    name = "oap"

    def __init__(
        self,
        *,
        file: Path,
        tools: Mapping[str, Sequence[str]] | None = None,
        free_tools: Sequence[str] = FREE,
        ignored_limits: Sequence[str] = (),
        rules: Sequence[Any] = (),
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._file = file
        self._tools = {
            name: (*CAPABILITIES.get(name, ()), *(tools or {}).get(name, ()))
            for name in {*CAPABILITIES, *(tools or {})}
        }
        self._free = tuple(free_tools)
        self._ignored = frozenset(ignored_limits)
        self._rules = read_rules(rules)
        self._clock = clock
        self._stamp = (0, 0)
        self._calls: dict[tuple[str, str], deque[datetime.datetime]] = {}
        try:
            self._passport = read_passport(self._file)
        except (OSError, ValueError) as error:
            raise ConfigError([f"guardrails.passport: {self._file}: {_said(error)}"]) from error

    async def evaluate(self, action: Action) -> Verdict:
        """See GuardrailProvider. A passport that has become unreadable raises."""
        passport = await asyncio.to_thread(self._present)
        problem = self._holder_problem(passport) or self._problem(passport, action)
        if problem:
            return Verdict("deny", problem, f"passport {passport.ident}")
        for index, rule in enumerate(self._rules):
            if rule.decision != "allow" and matches(rule, action):
                return verdict_of(rule, f"rules[{index}]")
        return Verdict("allow", policy=f"passport {passport.ident}")

    def _present(self) -> Passport:
        facts = self._file.stat()
        stamp = (facts.st_mtime_ns, facts.st_size)
        if stamp != self._stamp:
            self._passport = read_passport(self._file)
            self._stamp = stamp
        return self._passport

    def _holder_problem(self, passport: Passport) -> str:
        if passport.status != "active":
            return f"oap.passport_suspended: the passport is {passport.status}"
        if passport.expires is not None and passport.expires <= self._clock():
            return "oap.passport_suspended: the passport has expired"
        return ""

    def _problem(self, passport: Passport, action: Action) -> str:
        if _fits(action.tool, self._free):
            return ""
        held = [name for name, globs in passport.tools.items() if self._covers(name, globs, action)]
        if not held:
            return f"oap.unknown_capability: the passport has no capability for {action.tool}"
        for capability in held:
            problem = self._limits_problem(capability, passport.limits.get(capability, {}), action)
            if problem:
                return problem
        return ""

    def _limits_problem(self, capability: str, limits: dict[str, Any], action: Action) -> str:
        kept = without(limits, self._ignored)
        rate = kept.pop(RATE, None)
        for limit, value in kept.items():
            problem = _limit_problem(limit, value, action)
            if problem:
                return problem
        return "" if rate is None else self._rate_problem(rate, (action.user_id, capability))

    def _rate_problem(self, rate: Any, who: tuple[str, str]) -> str:
        """Counts the calls of the last minute, in this process; only a permitted call counts."""
        now = self._clock()
        calls = self._calls.setdefault(who, deque())
        while calls and now - calls[0] >= _MINUTE:
            calls.popleft()
        if not isinstance(rate, int) or len(calls) >= rate:
            return f"oap.rate_limit_exceeded: {RATE} is {rate}"
        calls.append(now)
        return ""

    def _covers(self, capability: str, globs: tuple[str, ...], action: Action) -> bool:
        return _fits(action.tool, globs or self._tools.get(capability, ()))


def passport_file(passport: str | None, *, folder: Path, base: Path) -> Path:
    """Where a passport lies that the configuration names by its id or its file.

    Args:
        passport: the name; one with a slash or `.json` is a file.
        folder: where passports lie as ID.json.
        base: what a relative file name starts from.

    Raises:
        ConfigError: there is no name.
    """
    if not passport:
        raise ConfigError(["guardrails.passport: is needed by the provider oap"])
    if passport.endswith(".json") or "/" in passport:
        return base / Path(passport).expanduser()
    return folder / f"{passport}.json"


def read_passport(file: Path) -> Passport:
    """A passport from its file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no passport; the text says which field is wrong.
    """
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "there is no such file")
    with file.open("rb") as stream:
        data = stream.read(FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise ValueError(f"larger than {FILE_LIMIT} bytes")
    raw: Any = orjson.loads(data)
    if not isinstance(raw, dict):
        raise ValueError("no JSON object")
    fields = cast("dict[str, Any]", raw)
    ident, status = fields.get("passport_id"), fields.get("status")
    if not isinstance(ident, str) or not ident:
        raise ValueError("passport_id is missing")
    if status not in _STATUS:
        raise ValueError(f"status must be one of {', '.join(_STATUS)}")
    version = str(fields.get("spec_version", "oap/1.0"))
    if not version.startswith("oap/1."):
        raise ValueError(f"spec_version {version!r} is not known; oap/1.x is")
    limits = _object(fields.get("limits", {}), "limits")
    return Passport(
        ident,
        str(status),
        _moment(fields.get("expires_at")),
        dict(_capabilities(fields.get("capabilities"))),
        {name: _object(value, f"limits.{name}") for name, value in limits.items()},
    )


def _capabilities(value: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not isinstance(value, list):
        raise ValueError("capabilities must be a list")
    for entry in cast("list[Any]", value):
        fields = {"id": entry} if isinstance(entry, str) else _object(entry, "capabilities")
        name = fields.get("id")
        if not isinstance(name, str) or not name:
            raise ValueError("a capability has no id")
        globs: Any = _object(fields.get("params") or {}, "params").get("tools", ())
        if not isinstance(globs, list | tuple):
            raise ValueError(f"params.tools of {name} must be a list")
        yield name, tuple(str(glob) for glob in cast("Sequence[Any]", globs))


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")
    return cast("dict[str, Any]", value)


def _moment(value: Any) -> datetime.datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("expires_at must be a time like 2030-01-01T00:00:00Z")
    moment = datetime.datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _said(error: OSError | ValueError) -> str:
    return (error.strerror or "cannot be read") if isinstance(error, OSError) else str(error)


def without(limits: dict[str, Any], ignored: frozenset[str]) -> dict[str, Any]:
    """Limits, and limits inside of them, without the ignored ones."""
    return {
        name: without(cast("dict[str, Any]", value), ignored) if isinstance(value, dict) else value
        for name, value in limits.items()
        if name not in ignored
    }


def _fits(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


# Limits. Each check is given the limit's value and the arguments, and says what is wrong.

_PATHS = ("path", "paths", "file_path", "image_path")
_URLS = ("url", "urls")
_CODE = ("command", "code")


def _limit_problem(limit: str, value: Any, action: Action) -> str:
    check = _LIMITS.get(limit)
    return _unchecked(limit) if check is None else check(value, action.args)


def _unchecked(limit: str) -> str:
    return (
        f"oap.policy_error: the limit {limit} cannot be checked here "
        "(guardrails.provider.config.ignored_limits)"
    )


def _given(args: dict[str, Any], names: Sequence[str]) -> list[str]:
    return [text for name in names if name in args for text in texts(args[name])]


def _strings(value: Any) -> list[str]:
    return [str(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []


def _allowed_paths(value: Any, args: dict[str, Any]) -> str:
    for path in _given(args, _PATHS) or ["(no path)"]:
        if ".." in path.split("/") or not any(_below(path, root) for root in _strings(value)):
            return f"oap.path_not_allowed: {path[:200]}"
    return ""


def _below(path: str, root: str) -> bool:
    folder = root.removesuffix("**").removesuffix("*").rstrip("/")
    return path == folder or path.startswith(f"{folder}/") or fnmatchcase(path, root)


def _allowed_commands(value: Any, args: dict[str, Any]) -> str:
    allowed = _strings(value)
    if "*" in allowed:
        return ""
    for text in _given(args, _CODE) or [""]:
        program = (text.split() or [""])[0]
        chained = any(sign in text for sign in (";", "|", "&", "`", "$(", "\n", ">", "<"))
        if chained or "code" in args or not _fits(program, allowed):
            return f"oap.command_not_allowed: {text[:200]}"
    return ""


def _blocked(value: Any, args: dict[str, Any]) -> str:
    for text in texts(args):
        even = " ".join(text.split())
        for pattern in _strings(value):
            if pattern in text or pattern in even or fnmatchcase(even, pattern):
                return f"oap.blocked_pattern: {pattern}"
    return ""


def _allowed_domains(value: Any, args: dict[str, Any]) -> str:
    for url in _given(args, _URLS) or [""]:
        host = urlsplit(url).hostname or ""
        if not any(_in_domain(host, domain) for domain in _strings(value)):
            return f"oap.domain_not_allowed: {host[:200] or 'no address'}"
    return ""


def _blocked_domains(value: Any, args: dict[str, Any]) -> str:
    for url in _given(args, _URLS):
        host = urlsplit(url).hostname or ""
        if any(_in_domain(host, domain) for domain in _strings(value)):
            return f"oap.domain_blocked: {host[:200]}"
    return ""


def _in_domain(host: str, domain: str) -> bool:
    domain = domain.lower().removeprefix("*.")
    return domain in ("*", host) or host.endswith(f".{domain}")


def _amount(args: dict[str, Any]) -> float | None:
    value = args.get("amount")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _max_amount(value: Any, args: dict[str, Any]) -> str:
    amount = _amount(args)
    if amount is None or amount < 0:
        return "oap.invalid_context: the argument amount must be a number"
    if not isinstance(value, int | float) or amount > value:
        return f"oap.limit_exceeded: {amount:g} is more than {value}"
    return ""


def _currencies(value: Any, args: dict[str, Any]) -> str:
    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    limits: Any = known.get(str(args.get("currency", "")))
    if not isinstance(limits, dict):
        return f"oap.currency_unsupported: {str(args.get('currency', 'none'))[:20]}"
    for name, most in cast("dict[str, Any]", limits).items():
        problem = _max_amount(most, args) if name == "max_per_tx" else _unchecked(name)
        if problem:
            return problem
    return ""


def _nothing(value: Any, args: dict[str, Any]) -> str:
    del value, args
    return ""


_LIMITS: Mapping[str, Callable[[Any, dict[str, Any]], str]] = {
    "allowed_paths": _allowed_paths,
    "blocked_paths": _blocked,
    "blocked_patterns": _blocked,
    "allowed_commands": _allowed_commands,
    "max_execution_time": _nothing,
    "allowed_domains": _allowed_domains,
    "blocked_domains": _blocked_domains,
    "max_amount": _max_amount,
    "max_per_tx": _max_amount,
    "currency_limits": _currencies,
}
"""What is checked. `max_execution_time` is kept by the sandbox's own limit of time."""
