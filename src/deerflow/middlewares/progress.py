"""What the calls of a run brought: which were seen before, and for how long nothing new came."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from deerflow.config.tools import LoopDetectionConfig

Rule = Literal["identical_calls", "no_progress", "tool_frequency"]

MARK = "\n\n[loop_detection] "
"""Begins the warning that is appended to a tool result."""

NEW_SHARE = 0.1
"""A read of something not read before is new when this share of its lines is (own choice: a window
that was shifted by a few lines is not)."""

_HANDLES = re.compile(r"\S*\.tool-results/\S+")


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that warns or refuses.

    Attributes:
        rule: which one.
        used, limit: its numbers.
        text: for the model and the user.
    """

    rule: Rule
    used: int
    limit: int
    text: str


@dataclass(slots=True)
class Progress:
    """Cursor of one run.

    A call brings something new when it is an effect that was not asked for before, when a call has
    another outcome than each time before, or when a read shows lines that were not shown yet. New
    effects make room for the same call again (test, edit, test); new reads do not.
    """

    config: LoopDetectionConfig
    readers: frozenset[str] = frozenset()
    seen: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    repeats: dict[str, int] = field(default_factory=dict[str, int])
    last: dict[str, str] = field(default_factory=dict[str, str])
    lines: set[int] = field(default_factory=set[int])
    errors: set[str] = field(default_factory=set[str])
    idle: int = 0
    by_tool: Counter[str] = field(default_factory=Counter[str])
    refused_turns: int = 0

    def forget(self) -> None:
        """Start anew: what was read is no longer in the model's sight."""
        for held in (self.seen, self.repeats, self.last, self.lines, self.errors, self.by_tool):
            held.clear()
        self.idle = 0

    def judge(self, name: str, args: Mapping[str, Any], ahead: Counter[str]) -> Finding | None:
        """Whether a call must be refused.

        Args:
            name: of the tool.
            args: of the call.
            ahead: identity → calls of the same turn that stand before it; the call is added.
        """
        key = identity(name, args)
        ahead[key] += 1
        used = self.repeats.get(key, 1 if key in self.seen else 0) + ahead[key]
        if used >= self.config.hard_limit:
            return self._identical(name, used, self.config.hard_limit)
        if key in self.seen and self.idle >= self.config.window_size:
            return self._stalled(self.config.window_size)
        limit = self._frequency(name)[1]
        if self.by_tool[name] >= limit:
            return self._frequent(name, limit)
        return None

    def observe(
        self, name: str, args: Mapping[str, Any], text: str, *, failed: bool
    ) -> Finding | None:
        """Take note of a result; returns a finding when it is time to warn."""
        key = identity(name, args)
        outcome = _digest(_HANDLES.sub("", text))
        before = self.seen.get(key, set())
        if self._is_new(name, text, outcome, before, failed=failed):
            self.idle = 0
            self.refused_turns = 0
            self.by_tool.clear()
            if name not in self.readers:
                self.repeats.clear()
        else:
            self.idle += 1
            self.by_tool[name] += 1
        same = self.last.get(key) == outcome
        self.repeats[key] = (self.repeats.get(key, 1) if same else 0) + 1
        self.last[key] = outcome
        self.seen.setdefault(key, set()).add(outcome)
        return self._warning(name, key)

    def _is_new(
        self, name: str, text: str, outcome: str, before: set[str], *, failed: bool
    ) -> bool:
        if failed:
            known = outcome in self.errors
            self.errors.add(outcome)
            return not known and outcome not in before
        if name not in self.readers:
            return outcome not in before
        lines = {hash(line.strip()) for line in text.splitlines()} or {hash("")}
        fresh = len(lines - self.lines)
        self.lines |= lines
        return outcome not in before and (bool(before) or fresh >= len(lines) * NEW_SHARE)

    def _warning(self, name: str, key: str) -> Finding | None:
        config = self.config
        if self.repeats[key] >= config.warn_threshold:
            return self._identical(name, self.repeats[key], config.hard_limit)
        if self.idle == -(-config.window_size * config.warn_threshold // config.hard_limit):
            return self._stalled(config.window_size)
        warn, limit = self._frequency(name)
        if self.by_tool[name] == warn:
            return self._frequent(name, limit)
        return None

    def _frequency(self, name: str) -> tuple[int, int]:
        own = self.config.tool_freq_overrides.get(name)
        if own is not None:
            return own.warn, own.hard_limit
        return self.config.tool_freq_warn, self.config.tool_freq_hard_limit

    def _identical(self, name: str, used: int, limit: int) -> Finding:
        text = (
            f"rule identical_calls: this is call {used} of {name!r} with the same arguments, and "
            f"the result stays the same; call {limit} is refused. Use the result you have, change "
            "the arguments, or go on with another step."
        )
        return Finding("identical_calls", used, limit, text)

    def _stalled(self, limit: int) -> Finding:
        text = (
            f"rule no_progress: the last {self.idle} calls repeated earlier ones and brought "
            f"nothing new; from {limit} on, repeated calls are refused. Do something that was not "
            "done yet, or answer with what you have."
        )
        return Finding("no_progress", self.idle, limit, text)

    def _frequent(self, name: str, limit: int) -> Finding:
        used = self.by_tool[name]
        text = (
            f"rule tool_frequency: {used} calls of {name!r} since anything new came; from {limit} "
            "on it is refused until another step brings something new. Write down what you have, "
            "or answer."
        )
        return Finding("tool_frequency", used, limit, text)


def identity(name: str, args: Mapping[str, Any]) -> str:
    """Name and arguments of a call as one short text; the order of keys does not matter."""
    return f"{name}:{_digest(json.dumps(args, sort_keys=True, default=str))}"


def _digest(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=12).hexdigest()
