"""The written turns of a scripted model: their checks, and which turn answers a request."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from deerflow.errors import (
    ConfigError,
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelPaymentError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
    ScriptError,
)

DEFAULT_STORY = "default"
MARKER = re.compile(r"\bscript:([\w.-]+)")
"""In a human message, `script:name` chooses the story of that name."""

ErrorCode = Literal[
    "rate_limit", "timeout", "server", "auth", "payment", "request", "context", "script"
]
_ERRORS: dict[str, tuple[type[ModelError], str]] = {
    "timeout": (ModelTimeoutError, "The model did not answer in time (scripted)."),
    "server": (ModelUnavailableError, "The model's server failed (scripted)."),
    "auth": (ModelAuthError, "The model refuses the key (scripted)."),
    "payment": (ModelPaymentError, "The model's account has no credit (scripted)."),
    "request": (ModelRequestError, "The model refuses the request (scripted)."),
    "context": (
        ContextOverflowError,
        "The request is larger than the window (scripted).",
    ),
    "script": (ScriptError, "The script says that this turn must not be reached."),
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedCall(_Part):
    """A tool call of a turn.

    Attributes:
        name: of the tool; it need not exist.
        args: a mapping, or the raw text as a provider would send it (may be malformed on purpose).
        id: the provider's call id; None gives `call_<turn>_<index>`.
    """

    name: str
    args: dict[str, Any] | str = Field(default_factory=dict[str, Any])
    id: str | None = None


class ScriptedFailure(_Part):
    """An error that a turn raises: code, message, and for rate_limit the seconds to wait."""

    code: ErrorCode
    message: str = ""
    retry_after: float | None = None

    def exception(self, model: str) -> ModelError:
        """The error of `deerflow.errors` that the code stands for."""
        if self.code == "rate_limit":
            text = self.message or "Too many requests (scripted)."
            return RateLimitError(text, model=model, retry_after=self.retry_after)
        kind, text = _ERRORS[self.code]
        return kind(self.message or text, model=model)


class ScriptedUsage(_Part):
    """Tokens that a turn reports."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


class Turn(_Part):
    """One written reply.

    Attributes:
        text: the answer.
        calls: tool calls.
        error: a code or {code, message, retry_after}; raised after `text` was streamed.
        reasoning: hidden thinking, streamed before the text.
        usage: reported tokens; None reports nothing.
        finish_reason: None gives "tool_calls" or "stop".
        delay_ms: wait before the first byte.
        gap_ms: wait between two pieces.
        when: regular expression; the turn only answers requests whose last human text it finds.
        times: how often the turn may be played.
        number, line: where it stands, from 1 (line 0 when it came from Python).
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedFailure | None = None
    reasoning: str = ""
    usage: ScriptedUsage | None = None
    finish_reason: str | None = None
    delay_ms: float = Field(default=0, ge=0)
    gap_ms: float = Field(default=0, ge=0)
    when: str | None = None
    times: int = Field(default=1, ge=1)
    number: int = Field(default=0, exclude=True)
    line: int = Field(default=0, exclude=True)

    @field_validator("error", mode="before")
    @classmethod
    def _short_error(cls, value: Any) -> Any:
        return {"code": value} if isinstance(value, str) else value

    @field_validator("when")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value

    def fits(self, human: str) -> bool:
        """Whether the turn may answer a request with this last human text."""
        return self.when is None or re.search(self.when, human) is not None

    @cached_property
    def label(self) -> str:
        """Where the turn stands and what it says, for messages."""
        what = self.text or ", ".join(call.name for call in self.calls)
        what = what or (f"error {self.error.code}" if self.error else "empty text")
        when = f", when {self.when!r}" if self.when else ""
        line = f", line {self.line}" if self.line else ""
        return f"turn {self.number} ({what[:40]!r}{when}{line})"


TURN_KEYS = [key for key in Turn.model_fields if key not in {"number", "line"}]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the script needs to know of a request.

    Attributes:
        human: text of the last human message.
        story: name in the newest `script:name` marker, or None.
        answered: AI messages after the human message that holds the marker (without one: in the
            whole request).
        tools: names of the offered tools.
    """

    human: str
    story: str | None
    answered: int
    tools: tuple[str, ...]

    def __str__(self) -> str:
        """One line for messages."""
        tools = ", ".join(self.tools) or "none"
        asked = f"last human text {self.human[:80]!r}"
        return f"{asked}, {self.answered} earlier answers, tools: {tools}"


@dataclass(slots=True)
class Story:
    """One list of turns and how far it was played."""

    name: str
    turns: list[Turn]
    played: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def unplayed(self) -> list[Turn]:
        """Turns that may still be played."""
        return [turn for turn in self.turns if self.played.get(turn.number, 0) < turn.times]

    @property
    def remaining(self) -> int:
        """Plays that are left, repeats counted."""
        return sum(turn.times - self.played.get(turn.number, 0) for turn in self.unplayed)

    def next(self, asked: Asked) -> Turn:
        """The first unplayed turn that fits the request.

        Raises:
            ScriptError: nothing is left that fits.
        """
        for turn in self.unplayed:
            if turn.fits(asked.human):
                return self._play(turn)
        count = sum(turn.times for turn in self.turns)
        left = "; ".join(turn.label for turn in self.unplayed) or "none"
        raise ScriptError(
            f"The script{self._named} holds {count} turns and number {self._plays + 1} was asked "
            f"for: {asked}. Unplayed: {left}.",
            cure="Add a turn to the script, or find out why the model was called once more.",
        )

    def following(self, asked: Asked) -> Turn:
        """The turn that follows the answers in the request: a new process goes on where one died.

        Error turns leave no answer: each that stands before the wanted turn is raised once.

        Raises:
            ScriptError: the request holds as many answers as the script.
        """
        answers = 0
        for turn in (t for t in self.turns if t.fits(asked.human)):
            if turn.error is not None:
                if answers == asked.answered and turn in self.unplayed:
                    return self._play(turn)
            elif answers + turn.times > asked.answered:
                return self._play(turn)
            else:
                answers += turn.times
        raise ScriptError(
            f"The script{self._named} holds {answers} answers and number {asked.answered + 1} was "
            f"asked for: {asked}.",
            cure="Add a turn to the script, or find out why the model was called once more.",
        )

    @property
    def _named(self) -> str:
        return "" if self.name == DEFAULT_STORY else f" {self.name!r}"

    @property
    def _plays(self) -> int:
        return sum(self.played.values())

    def _play(self, turn: Turn) -> Turn:
        self.played[turn.number] = self.played.get(turn.number, 0) + 1
        return turn


def read(source: Any) -> dict[str, Story]:
    """Check a script and split it into stories.

    Args:
        source: a list of turns, a mapping name → list of turns, a path, or YAML text of either.

    Raises:
        ConfigError: every problem at once, each with turn number and line.
    """
    where, data = _load(source)
    lists: dict[str, Any] = {DEFAULT_STORY: data}
    if isinstance(data, Mapping):
        lists = {str(name): turns for name, turns in cast(Mapping[Any, Any], data).items()}
    problems: list[str] = []
    stories: dict[str, Story] = {}
    for name, entries in lists.items():
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            problems.append(f"{where}: a script is a list of turns or a mapping name: [turns].")
            continue
        place = where if name == DEFAULT_STORY else f"{where}, story {name!r}"
        turns = [
            _turn(place, number, entry, problems)
            for number, entry in enumerate(cast(Sequence[Any], entries), 1)
        ]
        stories[name] = Story(name, [turn for turn in turns if turn is not None])
    if problems:
        raise ConfigError(problems)
    return stories


def _load(source: Any) -> tuple[str, Any]:
    if not isinstance(source, str | Path):
        return "script", source
    text, where = str(source), "script"
    if isinstance(source, Path) or ("\n" not in text and not text.lstrip().startswith(("-", "["))):
        where = Path(text).name
        try:
            text = Path(text).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"script file {where!r} cannot be read: {error}"]) from error
    try:
        return where, YAML(typ="rt").load(text)  # pyright: ignore[reportUnknownMemberType]
    except MarkedYAMLError as error:
        marked: Any = error  # ruamel.yaml is not typed here
        mark = marked.problem_mark
        line = f" line {mark.line + 1}" if mark else ""
        raise ConfigError([f"{where}{line}: not YAML: {marked.problem}"]) from error


def _turn(where: str, number: int, entry: Any, problems: list[str]) -> Turn | None:
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, Mapping):
        problems.append(f"{where}, turn {number}: a turn is text or a mapping with {TURN_KEYS}.")
        return None
    fields = cast(Mapping[str, Any], entry)
    line = _line(fields)
    try:
        turn = Turn.model_validate(_plain(fields))
    except ValidationError as error:
        for detail in error.errors():
            loc = detail["loc"]
            place = f"{where}, turn {number}"
            at = _line(fields, str(loc[0])) if loc else line
            place += f", line {at}" if at else ""
            problems.append(f"{place}: {_say(loc, detail)}")
        return None
    return turn.model_copy(update={"number": number, "line": line})


def _say(loc: tuple[int | str, ...], detail: Any) -> str:
    key = ".".join(str(part) for part in loc)
    if detail["type"] != "extra_forbidden":
        return f"{key}: {detail['msg']}"
    near = difflib.get_close_matches(str(loc[-1]), TURN_KEYS, n=1) if len(loc) == 1 else []
    hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(TURN_KEYS)}"
    return f"unknown key {key!r}; {hint}" if len(loc) == 1 else f"unknown key {key!r}"


def _line(entry: Any, key: str | None = None) -> int:
    """Line from 1 of a mapping or one of its keys; 0 when the mapping came from Python."""
    marks: Any = getattr(entry, "lc", None)
    if marks is None or marks.line is None:
        return 0
    at: Any = marks.data.get(key) if key and marks.data else None
    return int(at[0] if at else marks.line) + 1


def _plain(value: Any) -> Any:
    """Plain Python values of a round-trip YAML tree."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence):
        return [_plain(item) for item in cast(Sequence[Any], value)]
    return value
