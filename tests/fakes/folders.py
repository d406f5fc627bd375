"""A thread's folders on the disk beside a secret that no path may reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.errors import PathError
from deerflow.sandbox.files import FileTree
from deerflow.sandbox.protocol import ThreadFolders

SECRET = b"host secret"


class Home:
    """A thread's folders beside a secret that no path may reach."""

    def __init__(self, base: Path) -> None:
        self.secret = base / "secret"
        self.secret.mkdir()
        (self.secret / "key").write_bytes(SECRET)
        skills = base / "skills"
        (skills / "pdf").mkdir(parents=True)
        (skills / "pdf" / "SKILL.md").write_text("how to read a pdf")
        self.folders = ThreadFolders(root=base / "t" / "user-data", skills_public=skills)
        self.work = self.folders.workspace
        for folder in (self.work, self.folders.uploads, self.folders.outputs):
            folder.mkdir(parents=True)
        self.tree = FileTree(self.folders)


async def refused(home: Home, path: str) -> None:
    """Reading, listing, searching and writing all refuse, and none names a host path."""
    calls = [
        home.tree.read(path),
        home.tree.write(path, b"mine"),
        home.tree.listdir(path),
        home.tree.grep("secret", path=path),
        home.tree.stat(path, digest=True),
    ]
    for call in calls:
        with pytest.raises(PathError) as caught:
            await call
        assert str(home.folders.root.parent.parent) not in str(caught.value)
        assert caught.value.cure
    assert (home.secret / "key").read_bytes() == SECRET
    assert sorted(entry.name for entry in home.secret.iterdir()) == ["key"]
