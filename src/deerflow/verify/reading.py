"""Reads what roles reply: one JSON object that says what it says, or nothing. Nothing is guessed.

A reply that merely sounds like consent is no consent: "The answer is incorrect" holds "correct".
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from deerflow.models.thinktags import split_think
from deerflow.verify.messages import ResolverOutput, ValidatorVerdict

LONGEST = 200_000
"""Characters of a reply that are looked at; JSON of that size takes milliseconds."""

_OPENING = r"```[ \t]{0,8}(?:json|JSON)?[ \t]{0,8}\r?\n"  # bounded, so that no run is tried twice
_FENCED = re.compile(_OPENING + r"(.*?)```", re.DOTALL)
_FENCE = re.compile(_OPENING + r"(.*)```", re.DOTALL)


class ReplyError(Exception):
    """A reply that cannot be read; `why` is a sentence for the role that wrote it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def read_verdict(text: str) -> ValidatorVerdict:
    """The verdict that a reply consists of: a JSON object, bare or as the only fenced block.

    Raises:
        ReplyError: it is anything else, or `accepted` is not a real boolean.
    """
    found = _object(text, ("accepted", "feedback", "checked_answer"))
    accepted = found.get("accepted")
    if not isinstance(accepted, bool):
        raise ReplyError('"accepted" must be true or false, without quotes.')
    feedback, answer = _words(found, "feedback"), _words(found, "checked_answer")
    return ValidatorVerdict(accepted, feedback, answer)


def read_resolution(text: str) -> ResolverOutput:
    """The answer in a reply: of its JSON object, else the whole text.

    What stands around a single fenced object belongs to the reasoning, so nothing is lost.

    Raises:
        ReplyError: there is no answer at all.
    """
    visible = _visible(text)
    body, around = _candidate(visible)
    try:
        found = _parsed(body, ("response", "reasoning", "final", "confidence"))
        response, final = _words(found, "response"), _words(found, "final")
        reasoning = _joined(around, _words(found, "reasoning"))
    except ReplyError:
        return _whole(visible)
    if not response and "response" not in found:
        return _whole(visible)
    if not response:
        raise ReplyError('"response" is empty.')
    return ResolverOutput(response, reasoning, _share(found), final)


def read_choice(text: str) -> int:
    """Number of the answer that an adjudicator chose, 0 for neither.

    Raises:
        ReplyError: the reply is no JSON object with a `choice` of 0, 1 or 2.
    """
    choice = _object(text, ("choice", "reason")).get("choice")
    if isinstance(choice, str):
        choice = choice.strip()
        if choice in ("0", "1", "2"):
            return int(choice)
    if isinstance(choice, _Number) and choice.text in ("0", "1", "2"):
        return int(choice.text)
    raise ReplyError('"choice" must be 1, 2, or 0 for neither.')


class _Number:
    """A number as it was written: reading must not change an answer of 1.50 into 1.5."""

    def __init__(self, text: str) -> None:
        self.text = text


def _visible(text: str) -> str:
    return split_think(text)[0].strip()


def _whole(visible: str) -> ResolverOutput:
    if not visible:
        raise ReplyError("The reply is empty.")
    return ResolverOutput(visible)


def _candidate(visible: str) -> tuple[str, str]:
    """What may be the object of a reply, and what stands around it."""
    if visible.startswith("{") or len(visible) > LONGEST:
        return visible, ""
    blocks = list(_FENCED.finditer(visible))
    if len(blocks) != 1:
        return visible, ""
    before, after = visible[: blocks[0].start()], visible[blocks[0].end() :]
    return blocks[0][1], _joined(before.strip(), after.strip())


def _object(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The object that a whole reply consists of."""
    body = _visible(text)
    if len(body) > LONGEST:
        raise ReplyError("The reply is too long.")
    fenced = _FENCE.fullmatch(body)
    if fenced is not None:
        body = fenced[1]
    return _parsed(body, names)


def _parsed(body: str, names: tuple[str, ...]) -> dict[str, Any]:
    if len(body) > LONGEST:
        raise ReplyError("The reply is too long.")
    try:
        found: Any = json.loads(
            body,
            object_pairs_hook=_once,
            parse_constant=_no_constant,
            parse_int=_Number,
            parse_float=_Number,
        )
    except (ValueError, RecursionError):
        raise ReplyError("The reply is not one JSON object.") from None
    if not isinstance(found, dict):
        raise ReplyError("The reply is not one JSON object.")
    fields = cast("dict[str, Any]", found)
    for name in fields:  # "Accepted" beside "accepted": which one counts is not ours to say
        if name not in names and name.strip().casefold() in names:
            raise ReplyError(f"The key {name!r} is not spelt as asked for.")
    return fields


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ReplyError("A key stands twice in the object.")
    return found


def _no_constant(name: str) -> Any:
    raise ReplyError(f"{name} is no JSON.")


def _words(found: dict[str, Any], name: str) -> str:
    """A field's text; a number counts as it was written, null as nothing."""
    value = found.get(name)
    if value is None:
        return ""
    if isinstance(value, _Number):
        return value.text
    if not isinstance(value, str):
        raise ReplyError(f'"{name}" must be a text.')
    return value.strip()


def _share(found: dict[str, Any]) -> float | None:
    """The stated confidence; what is no number from 0 to 1 was not stated."""
    value = found.get("confidence")
    if not isinstance(value, _Number) or len(value.text) > 40:
        return None
    share = float(value.text)
    return share if 0 <= share <= 1 else None


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
