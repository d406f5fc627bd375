"""Other ways on from a thread's past: regenerate, edit and run again, branch, copy."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.base import CheckpointTuple

from deerflow.agent.context import INPUT
from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.runtime.history import Histories, address, refuse_busy
from deerflow.runtime.inputs import EARLIER
from deerflow.runtime.parts import RunParts
from deerflow.runtime.wire_messages import CLIENT_ID, is_clients
from deerflow.storage.protocol import ThreadRow

LONGEST_TEXT = 1_000_000
"""Characters of a replaced message."""
_SUFFIX = "__user"
"""Clients write it behind the id of a message that they show as the user's."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a client sends to run a turn again.

    Attributes:
        input: {"messages": [the user's message]}.
        checkpoint: where it forks off: {checkpoint_ns, checkpoint_id, checkpoint_map}.
        metadata: of the new run.
        target_run_id: the run that it stands in for.
        source_message_ids: messages of that turn, the user's first.
        replacement_id: id of the replaced user message, "" when it is as it was.
    """

    input: dict[str, Any]
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    target_run_id: str
    source_message_ids: tuple[str, ...] = ()
    replacement_id: str = ""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn of the conversation: the run that made it, and its messages, the user's first."""

    run_id: str
    messages: tuple[AnyMessage, ...] = ()
    last: bool = True


class Branches:
    """Turns of threads, run again or gone on with elsewhere.

    Args:
        parts: what runs are driven with.
        histories: states of threads.
    """

    def __init__(self, parts: RunParts, histories: Histories) -> None:
        self._parts = parts
        self._histories = histories

    async def regenerate(self, thread: ThreadRow, message_id: str) -> Rerun:
        """Prepare the latest turn to be answered again.

        Args:
            thread: the thread.
            message_id: any message of the turn.

        Raises:
            NotFoundError: the thread has no such message.
            ConflictError: it is not in the latest turn, or a run is active.
        """
        turn = await self._latest(thread, message_id)
        return await self._rerun(thread, turn, _content(turn.messages[0]))

    async def edit(self, thread: ThreadRow, message_id: str, text: str) -> Rerun:
        """Prepare the latest turn to be run again with other words of the user.

        Images and attachments of the message stay. Raises like `regenerate`, and UsageError when
        the text is empty or too long, or the message is not the user's.
        """
        if not text.strip() or len(text) > LONGEST_TEXT:
            raise UsageError(f"The new text has 1 to {LONGEST_TEXT:,} characters.")
        turn = await self._latest(thread, message_id)
        asked = turn.messages[0]
        if _plain(message_id) not in _ids(asked):
            raise UsageError("This is not the user's message of the latest turn.")
        return await self._rerun(thread, turn, _replaced(_content(asked), text), edited=True)

    async def branch(
        self,
        thread: ThreadRow,
        message_id: str,
        *,
        title: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ThreadRow:
        """A new thread that goes on from a completed turn of this one.

        It has the states up to there, the events, the files as they are now and references to
        blobs.

        Args:
            thread: the thread.
            message_id: any message of the turn.
            title: of the new thread, None for the same.
            thread_id: of the new thread, None makes one.
            metadata: of the new thread.

        Raises:
            NotFoundError: the thread has no such message.
            ConflictError: the turn is not completed, or the new thread exists.
        """
        turn = await self._turn(thread, message_id)
        if turn.last:
            await refuse_busy(self._parts, thread)
        head = await self._end_of(thread, turn)
        seq = await self._last_event(thread, turn)
        facts = {**(metadata or {}), "parent_thread_id": thread.thread_id}
        return await self._copied(thread, _Copy(thread_id, facts, head, seq, title or thread.title))

    async def copy(self, thread: ThreadRow, thread_id: str | None = None) -> ThreadRow:
        """A copy of a whole thread: states, events, files and references to blobs.

        Raises:
            ConflictError: a run is active, or the new thread exists.
        """
        await refuse_busy(self._parts, thread)
        copy = _Copy(thread_id, dict(thread.metadata), None, None, thread.title)
        return await self._copied(thread, copy)

    async def prune(self, threads: Sequence[ThreadRow]) -> int:
        """Keep of each thread only its newest state and what that needs; how many were pruned.

        Threads with an unfinished run are left out.
        """
        count = 0
        for thread in threads:
            if await self._parts.storage.threads.active_run(thread.thread_key) is None:
                await self._parts.storage.saver.aprune([thread.thread_key], strategy="keep_latest")
                count += 1
        return count

    # --- turns ---

    async def _latest(self, thread: ThreadRow, message_id: str) -> _Turn:
        await refuse_busy(self._parts, thread)
        turn = await self._turn(thread, message_id)
        if not turn.last:
            raise ConflictError(
                "Only the latest turn can be run again.", cure="Branch from the earlier one."
            )
        return turn

    async def _turn(self, thread: ThreadRow, message_id: str) -> _Turn:
        """The turn that a message belongs to."""
        found = await self._histories.state(thread)
        messages: list[AnyMessage] = found.values["messages"] if found is not None else []
        wanted = _plain(message_id)
        place = next((i for i, m in enumerate(messages) if wanted in _ids(m)), None)
        starts = [i for i, m in enumerate(messages) if (m.id or "").startswith(INPUT)]
        if place is not None and (messages[place].id or "").startswith(EARLIER):
            place = next((i for i in starts if i > place), None)
        before = [i for i in starts if place is not None and i <= place]
        if place is None or not before:
            raise NotFoundError(f"This thread has no message {message_id[:80]!r}.")
        start = before[-1]
        end = next((i for i in starts if i > start), len(messages))
        run_id = (messages[start].id or "").removeprefix(INPUT)
        return _Turn(run_id, tuple(messages[start:end]), last=end == len(messages))

    async def _rerun(
        self, thread: ThreadRow, turn: _Turn, content: Any, *, edited: bool = False
    ) -> Rerun:
        base = await self._start_of(thread, turn)
        asked = turn.messages[0]
        extra = {k: v for k, v in asked.additional_kwargs.items() if is_clients(k)}
        ident = uuid.uuid4().hex if edited else next(iter(_ids(asked)))
        message = {"type": "human", "content": content, "additional_kwargs": extra, "id": ident}
        return Rerun(
            input={"messages": [message]},
            checkpoint={"checkpoint_ns": "", "checkpoint_id": base, "checkpoint_map": None},
            metadata={
                "regenerate_from_run_id": turn.run_id,
                "regenerate_from_message_id": turn.messages[-1].id,
            },
            target_run_id=turn.run_id,
            source_message_ids=tuple(m.id or "" for m in turn.messages),
            replacement_id=ident if edited else "",
        )

    # --- checkpoints of turns ---

    async def _start_of(self, thread: ThreadRow, turn: _Turn) -> str:
        """Id of the state that the turn began from: the nearest one without its input."""
        found = await self._line(thread, turn.run_id, until_start=True)
        if found is None:
            raise ConflictError("The states of this turn are not kept any more.")
        return found.config["configurable"]["checkpoint_id"]  # pyright: ignore[reportTypedDictNotRequiredAccess]

    async def _end_of(self, thread: ThreadRow, turn: _Turn) -> str:
        """Id of the last state of a completed turn."""
        found = await self._line(thread, turn.run_id, until_start=False)
        if found is None:
            raise ConflictError("The states of this turn are not kept any more.")
        ident: str = found.config["configurable"]["checkpoint_id"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
        state = await self._histories.state(thread, ident)
        if state is None or state.next:
            raise ConflictError("The turn is not completed.")
        return ident

    async def _line(
        self, thread: ThreadRow, run_id: str, *, until_start: bool
    ) -> CheckpointTuple | None:
        """Walk from the newest state to its parents, to the last or before the first of a run.

        A run without a state before it gives its first one, which holds no message yet.
        """
        saver, config = self._parts.storage.saver, address(thread.thread_key)
        at = await saver.aget_tuple(config)
        own: CheckpointTuple | None = None
        while at is not None:
            mine = _run_of(at) == run_id
            if mine and not until_start:
                return at
            if own is not None and not mine:
                return at
            own = at if mine else own
            at = await saver.aget_tuple(at.parent_config) if at.parent_config else None
        return own

    async def _last_event(self, thread: ThreadRow, turn: _Turn) -> int:
        """Seq up to which the log belongs to what the turn and those before it have said."""
        last, after = 0, 0
        while events := await self._parts.storage.events.read(thread.thread_key, after=after):
            own = [event.seq for event in events if event.run_id == turn.run_id]
            last = own[-1] if own else last
            after = events[-1].seq
        return last

    # --- copies ---

    async def _copied(self, thread: ThreadRow, copy: _Copy) -> ThreadRow:
        storage, user = self._parts.storage, thread.user_id
        named = ThreadRow.new(user, copy.thread_id or str(uuid.uuid4()), copy.metadata)
        folders = self._parts.folders
        source, target = (folders(user, t.thread_key).root for t in (thread, named))
        await asyncio.to_thread(_copy_files, source, target)  # before anybody can see the thread
        made: ThreadRow | None = None
        try:
            made = await storage.threads.copy(
                thread.thread_key,
                replace(named, title=copy.title),
                seq=copy.seq,
                checkpoint_id=copy.head,
            )
        finally:
            if made is None:
                await asyncio.to_thread(shutil.rmtree, target.parent, True)
        if made is None:
            raise ConflictError("A thread with this id exists already.")
        return made


@dataclass(frozen=True, slots=True)
class _Copy:
    """What is copied: into which thread, up to which state and event (None = all)."""

    thread_id: str | None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    head: str | None = None
    seq: int | None = None
    title: str = ""


def _copy_files(source: Path, target: Path) -> None:
    """Files as they are; links stay links, so that nothing outside is read."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


def _run_of(found: CheckpointTuple) -> str:
    metadata: Mapping[str, Any] = found.metadata
    return str(metadata.get("run_id") or "").replace("-", "")


def _plain(message_id: str) -> str:
    return message_id.removesuffix(_SUFFIX)


def _ids(message: AnyMessage) -> tuple[str, ...]:
    """Names of a message: the client's own one first, then that of the thread."""
    names = (message.additional_kwargs.get(CLIENT_ID), message.id)
    return tuple(str(name) for name in names if name)


def _content(message: AnyMessage) -> Any:
    content: Any = message.content
    return content


def _replaced(content: Any, text: str) -> Any:
    """The content with other words; its other parts stay."""
    if isinstance(content, str):
        return text
    others = [p for p in content if not isinstance(p, str) and p.get("type") != "text"]
    return [{"type": "text", "text": text}, *others] if others else text
