"""What is refused before anything is written, and how expected names are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import DeerFlowError, NotFoundError, UsageError
from deerflow.runtime.admission import MAX_ID, check_request, expected
from deerflow.runtime.request import RunRequest
from deerflow.wiring.harness import open_harness
from fakes.harness import loaded, scripted_config, scripted_harness


@pytest.mark.parametrize(
    ("request_", "kind", "said"),
    [
        ({"task": " \n"}, UsageError, "The task is empty."),
        ({"task": "Hi", "model": "scriptd"}, NotFoundError, "scriptd"),
        ({"task": "Hi", "max_turns": 0}, UsageError, "at least one model turn"),
        ({"task": "Hi", "thread_id": ""}, UsageError, "A thread id has 1 to"),
        ({"task": "Hi", "thread_id": "a\nb"}, UsageError, "A thread id has 1 to"),
        ({"task": "Hi", "thread_id": "x" * (MAX_ID + 1)}, UsageError, "A thread id has 1 to"),
        ({"task": "Hi", "expect": ("/etc/passwd",)}, UsageError, "no file below outputs"),
        ({"task": "Hi", "expect": ("a/../../b",)}, UsageError, "no file below outputs"),
        ({"task": "Hi", "expect": ("",)}, UsageError, "no file below outputs"),
        ({"task": "Hi", "uploads": (Path("none"),)}, UsageError, "none: does not exist"),
        ({"resume": True}, UsageError, "A resume needs the thread."),
        ({"resume": True, "thread_id": "t", "task": "Hi"}, UsageError, "A resume continues"),
        ({"resume": True, "thread_id": "t", "plan": True}, UsageError, "A resume continues"),
        ({"resume": True, "thread_id": "t", "model": "scriptd"}, NotFoundError, "scriptd"),
    ],
)
async def test_refused(
    tmp_path: Path, request_: dict[str, Any], kind: type[DeerFlowError], said: str
) -> None:
    async with scripted_harness([{"text": "Hi."}], tmp_path) as harness:
        with pytest.raises(kind, match=said):
            await check_request(RunRequest(**request_), harness.loaded.config, harness.catalog)


async def test_a_refused_request_opens_no_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = loaded(scripted_config([], database={"backend": "sqlite"}), home)
    for request in (RunRequest(task=""), RunRequest(resume=True, thread_id="t")):
        with pytest.raises(UsageError):
            async with open_harness(settings, {}, request=request):
                pass
    assert not home.exists()


def test_expected_names_are_below_outputs() -> None:
    names = ("a.md", "/mnt/user-data/outputs/b/c.md", "./d.md", "..e")
    assert expected(RunRequest(expect=names)) == ("a.md", "b/c.md", "d.md", "..e")
