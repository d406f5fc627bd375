"""Policy by names: lists of tools, rules with globs over arguments, and a stated default.

Globs compare text. They are no boundary of security, since a command has many spellings: that
boundary is the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from deerflow.errors import ConfigError
from deerflow.guardrails.protocol import Action, Rule, Verdict

WHERE = "guardrails.provider.config"


class AllowlistProvider:
    """The first rule that matches decides.

    The order: denied tools, then the rules, then allowed tools, then the default. When
    `allowed_tools` is given, the default is deny, else allow.

    Args:
        allowed_tools: names or globs; None allows what nothing forbids.
        denied_tools: names or globs.
        rules: mappings with the fields of `Rule`.
        default: allow, deny or ask.

    Raises:
        ConfigError: a list, a rule or the default is wrong, one line each.
    """

    name = "allowlist"
    instant = True

    def __init__(
        self,
        *,
        allowed_tools: Sequence[str] | None = None,
        denied_tools: Sequence[str] = (),
        rules: Sequence[Any] = (),
        default: Literal["allow", "deny", "ask"] | None = None,
    ) -> None:
        denied = _names(denied_tools, "denied_tools")
        allowed = _names(allowed_tools or (), "allowed_tools")
        fallback = default or ("allow" if allowed_tools is None else "deny")
        if fallback not in ("allow", "deny", "ask"):
            raise ConfigError([f"{WHERE}.default: must be allow, deny or ask, not {fallback!r}"])
        self._rules = (
            *_listed(denied, "deny", "this tool is not permitted"),
            *((f"rules[{index}]", rule) for index, rule in enumerate(read_rules(rules))),
            *_listed(allowed, "allow", ""),
        )
        self._default = Verdict(fallback, _FALLBACK[fallback], "default")

    async def evaluate(self, action: Action) -> Verdict:
        """See GuardrailProvider."""
        for policy, rule in self._rules:
            if matches(rule, action):
                return verdict_of(rule, policy)
        return self._default


_FALLBACK = {
    "allow": "",
    "deny": "this tool is not on the list of permitted ones",
    "ask": "every call that no rule names needs approval",
}


class RuleConfig(BaseModel):
    """A rule as the configuration writes it; see `Rule`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    tools: tuple[str, ...] = Field(min_length=1)
    decision: Literal["allow", "deny", "ask"]
    args: dict[str, str] = Field(default_factory=dict[str, str])
    reason: str = Field(default="", max_length=500)
    expires_seconds: float | None = Field(default=None, gt=0)
    default: Literal["deny", "allow"] = "deny"

    @field_validator("tools", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def rule(self) -> Rule:
        """The rule."""
        return Rule(**self.model_dump())


def read_rules(entries: Sequence[Any]) -> list[Rule]:
    """Rules from the configuration.

    Raises:
        ConfigError: every wrong one, with its place.
    """
    rules: list[Rule] = []
    problems: list[str] = []
    if isinstance(entries, (str, dict)):
        raise ConfigError([f"{WHERE}.rules: must be a list"])
    for index, entry in enumerate(entries):
        try:
            rules.append(RuleConfig.model_validate(entry).rule())
        except ValidationError as error:
            for item in error.errors(include_url=False, include_context=False):
                place = ".".join(str(step) for step in item["loc"])
                problems.append(f"{WHERE}.rules[{index}].{place}: {item['msg']}")
    if problems:
        raise ConfigError(problems)
    return rules


def verdict_of(rule: Rule, policy: str) -> Verdict:
    """The verdict that a matching rule gives."""
    return Verdict(rule.decision, rule.reason, policy, rule.expires_seconds, rule.default)


def matches(rule: Rule, action: Action) -> bool:
    """Whether a rule speaks about an action.

    A rule that denies or asks matches when any text inside the argument does, also with its white
    space made even; one that allows only when every text does, as it stands.
    """
    if not any(fnmatchcase(action.tool, glob) for glob in rule.tools):
        return False
    strict = rule.decision == "allow"
    return all(_argument(name, glob, action.args, strict) for name, glob in rule.args.items())


def _argument(name: str, glob: str, args: dict[str, Any], strict: bool) -> bool:
    found = [text for key, value in args.items() if fnmatchcase(key, name) for text in texts(value)]
    if strict:
        return bool(found) and all(fnmatchcase(text, glob) for text in found)
    return any(fnmatchcase(text, glob) or fnmatchcase(_even(text), glob) for text in found)


def texts(value: Any) -> Iterator[str]:
    """The texts inside a value, at any depth; names inside it too, other scalars as JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield str(key)
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in cast("Iterable[Any]", value):
            yield from texts(item)
    else:
        yield orjson.dumps(value, default=str).decode()


def _even(text: str) -> str:
    return " ".join(text.split())


def _names(value: Any, key: str) -> tuple[str, ...]:
    entries = (value,) if isinstance(value, str) else value
    if not isinstance(entries, list | tuple):
        raise ConfigError([f"{WHERE}.{key}: must be a list of tools"])
    names = cast("Sequence[Any]", entries)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError([f"{WHERE}.{key}: must be a list of tools"])
    return tuple(names)


def _listed(
    tools: tuple[str, ...], decision: Literal["allow", "deny"], reason: str
) -> Iterator[tuple[str, Rule]]:
    if tools:
        yield (
            ("denied_tools" if decision == "deny" else "allowed_tools"),
            Rule(tools, decision, reason=reason),
        )
