"""The in-memory tree and the one on disk answer random sequences of calls alike."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import DeerFlowError
from deerflow.sandbox.protocol import FileInfo
from fakes.filetrees import Files, in_memory, on_disk

paths = st.sampled_from(
    ["a", "b", "a/c", "a/c/d", "界/🦌", ".", "", "..", "/mnt/user-data/outputs/a", "/mnt", "/etc/x"]
)
steps = st.one_of(
    st.tuples(st.just("write"), paths, st.binary(max_size=5)),
    st.tuples(st.just("read"), paths, st.integers(0, 3)),
    st.tuples(st.just("stat"), paths, st.booleans()),
    st.tuples(st.just("listdir"), paths, st.integers(1, 3)),
    st.tuples(st.just("glob"), paths, st.sampled_from(["*", "**/*", "a/*", "**/d"])),
    st.tuples(st.just("grep"), paths, st.sampled_from([".", "^$", "a"])),
)


@given(sequence=st.lists(steps, max_size=12))
def test_random_calls(sequence: list[tuple[str, str, Any]]) -> None:
    asyncio.run(_compare(sequence))


async def _compare(sequence: list[tuple[str, str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk, memory = await on_disk(Path(folder)), await in_memory(Path(folder))
        for step in sequence:
            assert await _outcome(disk, *step) == await _outcome(memory, *step), step


async def _outcome(files: Files, method: str, path: str, extra: Any) -> object:
    try:
        match method:
            case "write":
                return _facts(await files.write(path, extra))
            case "read":
                return await files.read(path, offset=extra)
            case "stat":
                return _facts(await files.stat(path, digest=extra))
            case "listdir":
                return [_facts(info) for info in await files.listdir(path, depth=extra)]
            case "glob":
                return sorted(await files.glob(extra, path=path))
            case _:
                return await files.grep(extra, path=path)
    except DeerFlowError as error:
        return type(error)


def _facts(info: FileInfo | None) -> object:
    """What both can agree on: sizes of directories and times are the disk's business."""
    if info is None:
        return None
    return info.path, info.kind, info.size if info.kind == "file" else 0, info.sha256
