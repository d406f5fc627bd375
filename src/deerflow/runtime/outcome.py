"""Reads the end of a run off the state: what was answered, delivered, asked or left undone."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from deerflow.agent.deliverables import OUTPUTS, missing_files
from deerflow.agent.journal import LIMIT
from deerflow.agent.record import visible_text
from deerflow.agent.reply_edge import EMPTY
from deerflow.guardrails.approvals import MOST, waiting
from deerflow.middlewares.clarification import MARK
from deerflow.runtime.request import Artifact, Outcome
from deerflow.storage.protocol import Approvals

QUESTION_TOOL = "ask_clarification"


def last_turn(messages: Sequence[AnyMessage], input_id: str) -> list[AnyMessage]:
    """Messages after the run's input; all of them when it is not there."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].id == input_id:
            return list(messages[index + 1 :])
    return list(messages)


def answer_of(messages: Sequence[AnyMessage]) -> str:
    """The last visible text of the model."""
    for message in reversed(messages):
        if isinstance(message, AIMessage) and visible_text(message):
            return visible_text(message)
    return ""


def question_of(messages: Sequence[AnyMessage]) -> dict[str, Any] | None:
    """The question that ended the run, None when it did not end by one."""
    tail: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            tail.append(message)
            continue
        if isinstance(message, AIMessage) and message.tool_calls:
            asked = {
                m.tool_call_id: m.additional_kwargs.get(MARK)
                for m in tail
                if m.name == QUESTION_TOOL and m.status != "error"
            }
            for call in message.tool_calls:
                if call["id"] in asked:
                    return dict(asked[call["id"]] or call["args"])
        return None
    return None


def outcome_of(messages: Sequence[AnyMessage], outputs: Path, expect: Sequence[str]) -> Outcome:
    """Outcome of a run that ended by itself.

    Args:
        messages: those of this run.
        outputs: host folder of the deliverables.
        expect: names below it that were asked for.
    """
    question = question_of(messages)
    if question is not None:
        return Outcome("waiting_for_human", {"question": question})
    last = next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)
    if last is not None and LIMIT in last.additional_kwargs:
        return Outcome("limit_reached", dict(last.additional_kwargs[LIMIT]))
    missing = missing_files(outputs, expect)
    if missing:
        return Outcome("deliverable_missing", {"missing": [OUTPUTS + name for name in missing]})
    if last is None or EMPTY in last.additional_kwargs or not visible_text(last):
        return Outcome("empty")
    return Outcome("answered")


async def waiting_outcome(approvals: Approvals, user_id: str, thread_key: str) -> Outcome:
    """Outcome of a run that an interrupt has ended: the calls that wait for a human."""
    rows = await approvals.list(user_id, thread_key=thread_key, limit=MOST)
    return Outcome("waiting_for_human", {"approvals": [waiting(row) for row in rows]})


def scan_outputs(outputs: Path) -> dict[str, tuple[int, int]]:
    """Regular files below outputs: name → (size, mtime in ns); no links, no hidden files."""
    found: dict[str, tuple[int, int]] = {}
    if outputs.is_symlink():  # without isolation an agent can put one in the folder's place
        return found
    for folder, folders, names in os.walk(outputs):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            try:
                facts = path.lstat()
            except OSError:  # a process of the sandbox took it away meanwhile
                continue
            if name.startswith(".") or not stat.S_ISREG(facts.st_mode):
                continue
            found[path.relative_to(outputs).as_posix()] = (facts.st_size, facts.st_mtime_ns)
    return found


def artifacts_of(
    outputs: Path, presented: Sequence[str], before: Mapping[str, tuple[int, int]]
) -> tuple[Artifact, ...]:
    """What this run delivered: presented files first, then what is new or changed in outputs."""
    now = scan_outputs(outputs)
    changed = [name for name, facts in sorted(now.items()) if before.get(name) != facts]
    named = [path.removeprefix(OUTPUTS) for path in presented if path.startswith(OUTPUTS)]
    order = dict.fromkeys([*(n for n in named if n in now and n in changed), *changed])
    return tuple(Artifact(OUTPUTS + name, outputs / name, now[name][0]) for name in order)
