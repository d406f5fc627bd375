"""Virtual paths: what resolves where, what is refused and how the refusal helps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import PathError
from deerflow.sandbox.paths import (
    USER_DATA,
    VirtualPaths,
    absolute_path,
    hide_host_paths,
    replace_virtual_path,
)
from deerflow.sandbox.protocol import ThreadFolders

HOST = Path("/srv/flow/users/u1/threads/k1/user-data")
FOLDERS = ThreadFolders(root=HOST, skills_public=Path("/srv/flow/skills/public"))
PATHS = VirtualPaths(FOLDERS)


@pytest.mark.parametrize(
    ("path", "cwd", "virtual"),
    [
        ("", "", "/mnt/user-data/workspace"),
        (".", "/mnt/user-data/outputs", "/mnt/user-data/outputs"),
        ("a.txt", "", "/mnt/user-data/workspace/a.txt"),
        ("./a//b/../c.txt", "", "/mnt/user-data/workspace/a/c.txt"),
        ("../outputs/x.md", "/mnt/user-data/workspace", "/mnt/user-data/outputs/x.md"),
        ("/mnt/user-data/uploads/", "", "/mnt/user-data/uploads"),
        ("//mnt//user-data/outputs/x", "", "/mnt/user-data/outputs/x"),
        ("报告/范围 — 结论 🦌.md", "", "/mnt/user-data/workspace/报告/范围 — 结论 🦌.md"),
        ("notes\\two.txt", "", "/mnt/user-data/workspace/notes/two.txt"),
        ("\\mnt\\user-data\\outputs\\x.md", "", "/mnt/user-data/outputs/x.md"),
        ("/mnt/user-data/workspace/odd\\name", "", "/mnt/user-data/workspace/odd\\name"),
        ("/mnt/skills/public/pdf/SKILL.md", "", "/mnt/skills/public/pdf/SKILL.md"),
    ],
)
def test_resolves(path: str, cwd: str, virtual: str) -> None:
    place = PATHS.resolve(path, cwd)
    assert place.virtual == virtual
    assert place.mount is not None
    assert "/".join((place.mount.virtual, *place.parts)) == virtual


@pytest.mark.parametrize("path", ["/mnt", "/mnt/user-data", "/mnt/skills", ".."])
def test_directories_above_the_mounts_have_no_folder(path: str) -> None:
    assert PATHS.resolve(path).mount is None


def test_names_below_bare_directories() -> None:
    assert PATHS.below(USER_DATA) == ["outputs", "uploads", "workspace"]
    assert PATHS.below("/mnt/skills") == ["public"]
    assert PATHS.below("/mnt") == ["skills", "user-data"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/",
        "../../../etc/passwd",
        "/mnt/user-data/workspace/../../../etc/passwd",
        "/mnt/user-data/other/x",
        "/mnt/user-data/workspaces/x",
        "/mnt/skills/custom/x",
        "/mnt/skills/private",
        "C:\\Users\\admin\\notes\\two.txt",
        "c:/Users/admin",
        "\\\\server\\share\\x",
        "a\0b",
        "a\ud800b",
    ],
)
def test_refusals_say_where_to_go(path: str) -> None:
    with pytest.raises(PathError) as caught:
        PATHS.resolve(path)
    assert "/mnt/user-data/workspace" in caught.value.cure or "ls" in caught.value.cure
    str(caught.value).encode()


def test_only_skills_are_read_only() -> None:
    assert {mount.virtual: mount.writable for mount in PATHS.mounts} == {
        "/mnt/user-data/workspace": True,
        "/mnt/user-data/uploads": True,
        "/mnt/user-data/outputs": True,
        "/mnt/skills/public": False,
    }


names = st.text(alphabet=st.sampled_from("ab.\\/~ 界🦌\n'"), max_size=30)


@given(
    path=names, cwd=st.sampled_from(["", "/mnt/user-data/outputs", "/mnt/user-data/workspace/a"])
)
def test_a_resolved_path_is_inside_and_stable(path: str, cwd: str) -> None:
    try:
        place = PATHS.resolve(path, cwd)
    except PathError:
        return
    assert ".." not in place.parts
    assert "" not in place.parts
    assert PATHS.resolve(place.virtual) == place
    assert absolute_path(path, cwd) == place.virtual
    if place.mount is not None:
        host = replace_virtual_path(place.virtual, FOLDERS)
        assert host.is_relative_to(place.mount.host)
        assert hide_host_paths(f"see {host}", FOLDERS) == f"see {place.virtual}"


def test_host_paths_are_hidden_in_running_text() -> None:
    text = f"open {HOST}/workspace/a.txt: no; root {HOST}. sibling {HOST}-old and {HOST}/outputs"
    assert hide_host_paths(text, FOLDERS) == (
        "open /mnt/user-data/workspace/a.txt: no; root /mnt/user-data. "
        f"sibling {HOST}-old and /mnt/user-data/outputs"
    )


def test_host_paths_are_hidden_in_both_spellings_of_a_linked_home(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    folders = ThreadFolders(root=tmp_path / "home" / "t")
    text = f"{tmp_path}/home/t/outputs {tmp_path}/real/t/workspace/x"
    assert hide_host_paths(text, folders) == "/mnt/user-data/outputs /mnt/user-data/workspace/x"


def test_replace_virtual_path() -> None:
    assert replace_virtual_path("/mnt/user-data/outputs/r.md", FOLDERS) == HOST / "outputs/r.md"
    assert replace_virtual_path("/mnt/user-data", FOLDERS) == HOST
    with pytest.raises(PathError):
        replace_virtual_path("/mnt", FOLDERS)
