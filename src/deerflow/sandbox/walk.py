"""Listings, globs and greps of the virtual tree on this host; links are shown, never followed."""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Iterator
from typing import Literal

from deerflow.errors import PathError
from deerflow.sandbox.openat import READ, Opener, translated
from deerflow.sandbox.paths import Place
from deerflow.sandbox.protocol import SKIP_DIRS, FileInfo, GrepHit
from deerflow.sandbox.search import Clock, Glob, LineSearch, included, relative, split_glob

TEMPORARY = ".deerflow-tmp-"
"""Prefix of half-written files; never listed."""

Kind = Literal["file", "dir", "link"]


class Walk:
    """Searches below directories. Blocking: call it from a thread."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._paths = opener.paths

    def listdir(self, path: str, depth: int, limit: int) -> list[FileInfo]:
        """Entries below a directory, sorted by path."""
        place = self._paths.resolve(path)
        found: list[FileInfo] = []
        for info in self._entries(place, depth, skip=frozenset(SKIP_DIRS)):
            found.append(info)
            if len(found) >= limit:
                break
        return found

    def glob(self, pattern: str, path: str, limit: int) -> list[str]:
        """Files and links that match, newest first."""
        prefix, rest = split_glob(pattern)
        base = self._paths.resolve(posixpath.join(path, prefix))
        if not self._is_dir(base):
            return []
        glob = Glob(rest)
        found = [
            info
            for info in self._entries(base, None, skip=frozenset(SKIP_DIRS) - glob.names)
            if info.kind != "dir" and glob.matches(relative(info.path, base.virtual))
        ]
        found.sort(key=lambda info: (-info.modified, info.path))
        return [info.path for info in found[:limit]]

    def grep(self, pattern: str, path: str, include: str, limit: int) -> list[GrepHit]:
        """Lines that match, by path."""
        clock = Clock()
        search = LineSearch(pattern, limit, clock)
        wanted = included(include)
        base = self._paths.resolve(path)
        if not self._is_dir(base):
            self._feed(search, base)
            return search.hits
        for info in self._entries(base, None, skip=frozenset(SKIP_DIRS), clock=clock):
            if search.full:
                break
            if info.kind != "file":
                continue
            if wanted is None or wanted.matches(relative(info.path, base.virtual)):
                with contextlib.suppress(PathError):  # gone or swapped since it was listed
                    self._feed(search, self._paths.resolve(info.path))
        return search.hits

    def _feed(self, search: LineSearch, place: Place) -> None:
        with (
            translated(place.virtual),
            self._opener.opened(place) as fd,
            open(fd, "rb", closefd=False) as stream,
        ):
            search.feed(place.virtual, stream)

    def _is_dir(self, place: Place) -> bool:
        if place.mount is None:
            return True
        with translated(place.virtual):
            try:
                with self._opener.spot(place) as spot:
                    info = os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False)
            except FileNotFoundError:
                if place.parts:
                    raise
                return True
        return stat.S_ISDIR(info.st_mode)

    def _entries(
        self, place: Place, depth: int | None, *, skip: frozenset[str], clock: Clock | None = None
    ) -> Iterator[FileInfo]:
        """Everything below a directory, sorted by path, folders before what they hold."""
        clock = clock or Clock()
        todo = [(info, depth) for info in reversed(self._children(place, skip, clock))]
        while todo:
            info, left = todo.pop()
            yield info
            below = None if left is None else left - 1
            if info.kind != "dir" or (below is not None and below < 1):
                continue
            try:
                children = self._children(self._paths.resolve(info.path), skip, clock)
            except PathError:  # gone, swapped or closed to us since it was listed
                continue
            todo += [(child, below) for child in reversed(children)]

    def _children(self, place: Place, skip: frozenset[str], clock: Clock) -> list[FileInfo]:
        if place.mount is None:
            names = self._paths.below(place.virtual)
            return [FileInfo(f"{place.virtual}/{name}", "dir", 0, 0.0) for name in names]
        with translated(place.virtual):
            try:
                with self._opener.spot(place) as spot:
                    flags = READ | os.O_DIRECTORY
                    fd = os.open(spot.name, flags, dir_fd=spot.directory)
            except FileNotFoundError:
                if place.parts:
                    raise
                return []  # folders are made when first written to
            try:
                return sorted(_listed(fd, place.virtual, skip, clock), key=lambda info: info.path)
            finally:
                os.close(fd)


def kind_of(mode: int) -> Kind:
    """Kind of an entry by its mode; pipes and the like count as files (reading them is refused)."""
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "file"


def _listed(fd: int, virtual: str, skip: frozenset[str], clock: Clock) -> Iterator[FileInfo]:
    with os.scandir(fd) as entries:
        for entry in entries:
            clock.tick()
            if entry.name in skip or entry.name.startswith(TEMPORARY):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            name = os.fsencode(entry.name).decode("utf-8", "backslashreplace")
            yield FileInfo(f"{virtual}/{name}", kind_of(info.st_mode), info.st_size, info.st_mtime)
