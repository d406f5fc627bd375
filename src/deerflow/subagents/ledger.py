"""The ledger of delegations: what was asked of children, and whether a new task asks the same.

A new task is the same as an old one only when it brings no word of its own, filler words aside,
keeps the order, and leaves out little: no number, name, file or negation. A doubled child costs
money; a wrong match gives the lead an answer to another question, so in doubt a child runs.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

from deerflow.agent.calls import REFUSED
from deerflow.agent.state import TaskState
from deerflow.middlewares.subagent_limit import TASK

SIMILAR = 0.8
"""Share of an earlier prompt's words that a new one must have to ask the same."""
KEPT_PROMPT = 1_000
"""Characters of a prompt that the ledger keeps; longer ones are compared by digest alone."""
BRIEF = 500
"""Characters of a result that the ledger keeps."""
MOST = 64
"""Entries of a thread's ledger; the oldest ones go."""

_EDGES = ".,;:!?'\"()[]{}*`…“”‘’"
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_CJK_FILLER = re.compile("再次|重新|一下|麻烦|帮我|请|再|的|了|吧|[、。「」『』《》]")
FILLER = frozenset(
    "a an the this that these those please kindly again also and then just now so very task "
    "of to for in on at by with as is are be it its you your me my we our carefully".split()
)
"""Words that change nothing of what is asked."""
_NEGATIONS = frozenset("not no never without except only none nor".split())


def known(state: Mapping[str, Any], call: ToolCall) -> TaskState | None:
    """The completed delegation that a `task` call repeats, None when it is new.

    Args:
        state: of the lead's thread.
        call: of the tool `task`.
    """
    kind, prompt = _asked(call)
    entries = cast("dict[str, TaskState]", state.get("delegations") or {})
    for entry in reversed(entries.values()):
        same_kind = entry["subagent_type"] == kind and entry["status"] == "completed"
        if same_kind and entry["task_id"] != call["id"] and _same_as_entry(prompt, entry):
            return entry
    return None


def twin(turn: AIMessage, call: ToolCall) -> ToolCall | None:
    """The earlier call of the same turn that asks the same, None when there is none."""
    kind, prompt = _asked(call)
    refused = turn.additional_kwargs.get(REFUSED, {})
    for other in turn.tool_calls:
        if other["id"] == call["id"]:
            return None
        if other["name"] == TASK and other["id"] not in refused:
            if _asked(other)[0] == kind and same(_asked(other)[1], prompt):
                return other
    return None


def full_result(messages: Sequence[AnyMessage], entry: TaskState) -> str:
    """What the child answered, as the transcript has it, else the brief of the ledger."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and message.tool_call_id == entry["task_id"]:
            return message.text
    return entry["result"]


def same(old: str, new: str) -> bool:
    """Whether a prompt asks what another one asked; case, layout and fillers do not count.

    Prompts longer than KEPT_PROMPT are compared by digest, as the ledger does.
    """
    if max(len(old), len(new)) > KEPT_PROMPT:
        return _digest(old) == _digest(new)
    if _plain(old) == _plain(new):
        return True
    before, after = _tokens(old), _tokens(new)
    rest = iter(before)
    if not after or not all(word in rest for word in after):
        return False  # something is new, or stands elsewhere
    left_out = list(before)
    for word in after:
        left_out.remove(word)
    return len(after) >= SIMILAR * len(before) and not any(map(_matters, left_out))


def entered(
    state: Mapping[str, Any], entry: TaskState, prompt: str
) -> dict[str, dict[str, TaskState | None]]:
    """The state update that puts an entry into the ledger, cut to size; the oldest ones go.

    Args:
        state: of the lead's thread.
        entry: `prompt` and `result` as long as they are.
        prompt: the whole prompt.
    """
    held = cast("dict[str, TaskState]", state.get("delegations") or {})
    others = [key for key in held if key != entry["task_id"]]
    change: dict[str, TaskState | None] = dict.fromkeys(others[: max(0, len(others) - MOST + 1)])
    change[entry["task_id"]] = {
        **entry,
        "description": entry["description"][:200],
        "prompt": prompt if len(prompt) <= KEPT_PROMPT else _digest(prompt),
        "result": brief(entry["result"]),
    }
    return {"delegations": change}


def brief(text: str) -> str:
    """A result in BRIEF characters."""
    return text if len(text) <= BRIEF else text[: BRIEF - 1] + "…"


def _asked(call: ToolCall) -> tuple[str, str]:
    args = call["args"]
    return str(args.get("subagent_type") or ""), str(args.get("prompt") or "")


def _same_as_entry(prompt: str, entry: TaskState) -> bool:
    if len(prompt) > KEPT_PROMPT:
        return entry["prompt"] == _digest(prompt)
    return same(entry["prompt"], prompt)


@lru_cache(maxsize=256)  # each call of a turn is held against the others
def _digest(prompt: str) -> str:
    return "sha256:" + hashlib.sha256(_plain(prompt).encode("utf-8", "replace")).hexdigest()


@lru_cache(maxsize=256)
def _plain(text: str) -> str:
    """The text without differences of layout: line ends and runs of blanks."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@lru_cache(maxsize=256)
def _tokens(text: str) -> tuple[str, ...]:
    """Words, names, numbers and paths in order, CJK signs one by one; fillers left out.

    What is written in capitals keeps them, so that neither "vendor A" nor "IT" is a filler.
    """
    text = _CJK_FILLER.sub(" ", unicodedata.normalize("NFKC", text))
    found: list[str] = []
    for match in re.finditer(r"\S+", _CJK.sub(r" \g<0> ", text)):
        word = match[0].strip(_EDGES)
        name = word.isupper() and not (word == "A" and _opens(text, match.start()))
        if word and (name or word.casefold() not in FILLER):
            found.append(word if name else word.casefold())
    return tuple(found)


def _opens(text: str, at: int) -> bool:
    """Whether a sentence or line begins here."""
    head = text[:at].rstrip(" \t\"'(*#>-")
    return not head or head[-1] in ".!?:\n"


def _matters(word: str) -> bool:
    """Whether a word that is left out changes what is asked: names, numbers, files, negations."""
    return not word.isalpha() or len(word) == 1 or word.isupper() or word in _NEGATIONS
