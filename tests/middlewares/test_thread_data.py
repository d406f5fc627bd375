"""Row 1: folders by virtual name, nothing on disk."""

import os
from pathlib import Path

from deerflow.middlewares.thread_data import FOLDERS, ThreadDataMiddleware
from fakes.rows import run_context, started, user


async def test_state_names_the_three_virtual_folders_once() -> None:
    run = run_context()
    state = await started([ThreadDataMiddleware()], {"messages": [user("hi")]}, run)
    assert state["thread_data"] == {
        "workspace_path": "/mnt/user-data/workspace",
        "uploads_path": "/mnt/user-data/uploads",
        "outputs_path": "/mnt/user-data/outputs",
    }
    assert await ThreadDataMiddleware().start(state, run) is None


async def test_a_plain_answer_leaves_no_folder(tmp_path: Path) -> None:
    run = run_context(tmp_path / "user-data")
    await ThreadDataMiddleware().start({"messages": [user("hi")], "thread_data": {}}, run)
    assert os.listdir(tmp_path) == []
    assert str(tmp_path) not in str(FOLDERS)
