"""Memories as readable files: one folder per user, with copies of former revisions for undo."""

from __future__ import annotations

import asyncio
import builtins
import json
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from deerflow.errors import StorageError
from deerflow.memory.deermem.document import from_json, iso, parse, seconds_of, to_json
from deerflow.memory.deermem.facts import sealed
from deerflow.memory.deermem.folders import SETTLED_SECONDS, Stamp, UserFolder, is_settled, stamp_of
from deerflow.memory.deermem.ranking import ordered, relevance
from deerflow.memory.deermem.words import clean
from deerflow.memory.protocol import MAX_CHANGES, Change, Fact, MemoryDocument, Mutate

MAX_KEPT_BYTES = 8 * 1024 * 1024
"""Of all copies of a user: the oldest go first, the newest two stay."""

THREADS = 4
"""Enough for a disk; a writer that waits for a lock must not use up the process's threads."""

MAX_SEEN = 256
"""Users whose memory is kept at hand."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Stored:
    """A revision as it is on the disk.

    Attributes:
        document: what it says.
        change: what made it, None for an empty memory and for a file from elsewhere.
        previous: revision to go back to, None for "nothing before".
        data: its bytes.
    """

    document: MemoryDocument
    change: Change | None = None
    previous: int | None = None
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A memory as it was read, good while the stamp of its file is the same."""

    file: str
    stamp: Stamp | None
    document: MemoryDocument


class FileMemoryStorage:
    """A `MemoryStorage` below a folder: `users/{safe_user_id}/memory.json`.

    The file has the shape of 2.x files, so such a file can be put there by hand. `revisions/` holds
    a copy of the present and of former revisions; an edit by hand counts as a change.

    Args:
        folder: made when something is stored.
        now: the clock, UTC seconds.
        age: seconds after a change for which a memory is not kept at hand.
    """

    def __init__(
        self,
        folder: Path,
        *,
        now: Callable[[], float] = time.time,
        age: float = SETTLED_SECONDS,
    ) -> None:
        self._age = age
        self._root = folder.absolute()
        self._now = now
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memory")
        self._seen: dict[str, _Seen] = {}

    async def load(self, user_id: str) -> MemoryDocument:
        """See `MemoryStorage.load`."""
        seen = self._seen.get(user_id)
        if seen is not None and _is_current(seen):
            return seen.document
        folder = UserFolder(self._root, user_id)
        seen, document = await self._off_loop(_look, folder, self._age)
        if seen is None:
            self._seen.pop(user_id, None)
        else:
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()
            self._seen[user_id] = seen
        return document

    async def update(self, user_id: str, mutate: Mutate) -> MemoryDocument:
        """See `MemoryStorage.update`."""
        return await self._off_loop(self._update, UserFolder(self._root, user_id), mutate)

    async def changes(self, user_id: str, *, limit: int = 50) -> builtins.list[Change]:
        """See `MemoryStorage.changes`."""
        return await self._off_loop(self._changes, UserFolder(self._root, user_id), limit)

    async def undo(self, user_id: str) -> Change | None:
        """See `MemoryStorage.undo`."""
        return await self._off_loop(self._undo, UserFolder(self._root, user_id))

    async def search(
        self, user_id: str, query: str, *, limit: int = 15
    ) -> builtins.list[tuple[Fact, float]]:
        """See `MemoryStorage.search`."""
        current = (await self.load(user_id)).current
        scores = relevance(query, current)
        hits = ordered((fact for fact in current if fact.id in scores), scores)
        return [(fact, scores[fact.id]) for fact in hits[:limit]]

    async def delete(self, user_id: str) -> bool:
        """See `MemoryStorage.delete`."""
        return await self._off_loop(self._delete, UserFolder(self._root, user_id))

    async def close(self) -> None:
        """Let go of the threads; what they have begun they finish."""
        self._threads.shutdown(wait=False)

    async def _off_loop(self, work: Callable[..., T], folder: UserFolder, *args: Any) -> T:
        def guarded() -> T:
            with _translated(folder):
                return work(folder, *args)

        return await asyncio.get_running_loop().run_in_executor(self._threads, guarded)

    def _update(self, folder: UserFolder, mutate: Mutate) -> MemoryDocument:
        with folder.locked():
            former = self._current(folder)
            made = mutate(former.document)
            if made is None:
                return former.document
            document = sealed(former.document, made[0], self._now())
            change = Change(document.revision, document.updated_at, clean(made[1]))
            previous = former.document.revision if former.data else former.previous
            _write(folder, _encoded(document, change, previous), former)
            return document

    def _changes(self, folder: UserFolder, limit: int) -> builtins.list[Change]:
        found: builtins.list[Change] = []
        stored: _Stored | None = _load(folder)
        while stored is not None and stored.change is not None and len(found) < limit:
            before = _before(folder, stored)
            if before is not None:
                found.append(stored.change)
            stored = before
        return found

    def _undo(self, folder: UserFolder) -> Change | None:
        if not self._root.is_dir():
            return None
        with folder.locked():
            data = folder.read()
            try:
                sound = data is not None
                stored = self._current(folder)
            except StorageError:
                sound, stored = False, _Stored(MemoryDocument())
            if not sound:
                return self._restore(folder, damaged=data is not None)
            before = _before(folder, stored)
            if stored.change is None or before is None:
                return None
            document = replace(before.document, taken=stored.document.taken)
            document = sealed(stored.document, document, self._now())
            _write(folder, _encoded(document, before.change, before.previous), stored)
            return stored.change

    def _restore(self, folder: UserFolder, *, damaged: bool) -> Change | None:
        """Put the newest sound copy in the place of a file that is damaged or gone."""
        kept = folder.kept()
        for revision in reversed(kept):
            stored = _read_kept(folder, revision)
            if stored is None:
                continue
            what = "the removal of the file"
            if damaged:
                what = f"the damage of the file, which is kept as {folder.set_aside()}"
            newest = replace(stored.document, revision=kept[-1])
            document = sealed(newest, stored.document, self._now())
            _write(folder, _encoded(document, stored.change, stored.previous), stored)
            return Change(document.revision, document.updated_at, what)
        if damaged:
            _load(folder)  # says what is wrong
        return None

    def _delete(self, folder: UserFolder) -> bool:
        if not self._root.is_dir():
            return False
        with folder.locked():
            return folder.remove()

    def _current(self, folder: UserFolder) -> _Stored:
        """What is stored, with a copy of it in `revisions`.

        The copy is missing after a kill between the two; it differs after an edit by hand.
        """
        stored, kept = _load(folder), folder.kept()
        revision = stored.document.revision
        if not stored.data:  # new, or removed by hand
            newest = kept[-1] if kept else None
            return replace(stored, document=MemoryDocument(revision=newest or 0), previous=newest)
        if not kept or (revision > kept[-1] and stored.change is not None):
            folder.keep(revision, stored.data)
            return stored
        if revision == kept[-1] and folder.read_kept(revision) == stored.data:
            return stored
        edited = replace(stored.document, revision=max(kept[-1], revision) + 1)
        change = Change(edited.revision, self._now(), "edited by hand")
        made = _encoded(edited, change, kept[-1])
        _write(folder, made, stored)
        return made


def _is_current(seen: _Seen) -> bool:
    try:
        return stamp_of(seen.file) == seen.stamp
    except OSError:  # the reading that follows says what is wrong
        return False


def _look(folder: UserFolder, age: float) -> tuple[_Seen | None, MemoryDocument]:
    """What is stored, and the same to be kept at hand unless it changed just now."""
    file = str(folder.file)
    stamp = stamp_of(file)
    document = _load(folder).document
    return (_Seen(file, stamp, document) if is_settled(stamp, age) else None), document


def _load(folder: UserFolder) -> _Stored:
    """What is stored; empty when nothing is.

    Raises:
        StorageError: damaged.
    """
    data = folder.read()
    if data is None:
        return _Stored(MemoryDocument())
    stored, problem = _decoded(data)
    if stored is None:
        raise _damaged(folder, problem)
    return stored


def _read_kept(folder: UserFolder, revision: int) -> _Stored | None:
    data = folder.read_kept(revision)
    return None if data is None else _decoded(data)[0]


def _before(folder: UserFolder, stored: _Stored) -> _Stored | None:
    """The revision to which an undo goes back; None when there is no copy of it any more."""
    if stored.previous is None:
        return _Stored(MemoryDocument())
    return _read_kept(folder, stored.previous)


def _write(folder: UserFolder, stored: _Stored, former: _Stored) -> None:
    """Make a revision the present one: first the file (that counts), then its copy."""
    folder.write(stored.data)
    revision = stored.document.revision
    folder.keep(revision, stored.data)
    kept = [each for each in folder.kept() if each < revision]
    gone = [each for each in kept if _between(each, stored) or _between(each, former)]
    stay = [each for each in kept if each not in gone]
    stay, older = stay[-MAX_CHANGES:], stay[:-MAX_CHANGES]
    room = MAX_KEPT_BYTES - len(stored.data)
    for each in reversed(stay):
        room -= folder.kept_bytes(each)
        if room < 0 and each != stay[-1]:
            older.append(each)
    for each in (*gone, *older):
        folder.drop_kept(each)


def _between(revision: int, stored: _Stored) -> bool:
    """Whether a copy was passed over by an undo, so that nothing leads to it."""
    return stored.previous is not None and stored.previous < revision < stored.document.revision


def _encoded(document: MemoryDocument, change: Change | None, previous: int | None) -> _Stored:
    raw = to_json(document)
    if change is not None:
        raw["change"] = {"revision": change.revision, "at": iso(change.at), "what": change.what}
        raw["previous"] = previous
    data = json.dumps(raw, ensure_ascii=False, indent=2, allow_nan=False).encode()
    return _Stored(document, change, previous, data)


def _decoded(data: bytes) -> tuple[_Stored | None, str]:
    """A revision, or None and what is wrong with it."""
    try:
        raw = parse(data)
    except ValueError as error:
        return None, f"no JSON: {error}"
    reading = from_json(raw)
    if reading.left_out:
        more = len(reading.left_out) - 3
        lines = [*reading.left_out[:3], *([f"and {more} more"] if more > 0 else [])]
        return None, "; ".join(lines)
    change, previous = _change_of(raw)
    return _Stored(reading.document, change, previous, data), ""


def _change_of(raw: Mapping[str, Any]) -> tuple[Change | None, int | None]:
    given, previous = raw.get("change"), raw.get("previous")
    if not isinstance(given, Mapping):
        return None, None
    change = cast("Mapping[str, Any]", given)
    revision, what = change.get("revision"), change.get("what")
    if not isinstance(revision, int) or not isinstance(what, str):
        return None, None
    found = Change(revision, seconds_of(change.get("at")), what)
    return found, previous if isinstance(previous, int) else None


def _damaged(folder: UserFolder, problem: str) -> StorageError:
    cure = (
        "`deerflow memory undo` goes back to the newest kept copy and keeps the damaged file."
        if folder.kept()
        else "Correct it; or move it away and give it to `deerflow memory import`, which takes in"
        " what is good."
    )
    return StorageError(
        f"The memory file {folder.name} is damaged and was left as it is ({problem}).", cure=cure
    )


@contextmanager
def _translated(folder: UserFolder) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or "input or output failed"
        raise StorageError(
            f"The memory {folder.name} cannot be used ({reason}); nothing was changed.",
            cure="Free some space, or make the folder readable and writable.",
        ) from error
