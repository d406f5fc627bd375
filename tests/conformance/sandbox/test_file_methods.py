"""What the file methods of every sandbox do alike."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from deerflow.errors import ConflictError, PathError, SandboxUnavailableError, ToolError
from fakes.filetrees import PROVIDERS, SKILL, Files, on_disk, sandbox_files

WORK = "/mnt/user-data/workspace"


@pytest.fixture(params=["disk", *PROVIDERS])
async def files(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Files, None]:
    if request.param == "disk":
        yield await on_disk(tmp_path)
        return
    async with PROVIDERS[request.param](tmp_path) as provider:
        try:
            made = await sandbox_files(provider, tmp_path)
        except SandboxUnavailableError as error:
            pytest.skip(str(error))
        yield made


async def test_write_then_read(files: Files) -> None:
    data = "范围 — 结论 🦌\r\n".encode() + b"\xff\x00"
    info = await files.write("深/a b.txt", data)
    assert (info.path, info.kind, info.size) == (f"{WORK}/深/a b.txt", "file", len(data))
    assert info.sha256 == hashlib.sha256(data).hexdigest()
    assert await files.read("深/a b.txt") == data
    assert await files.read(f"{WORK}/深/../深/a b.txt", offset=4, length=3) == data[4:7]
    assert await files.read("深/a b.txt", offset=len(data) + 5, length=3) == b""


async def test_stat(files: Files) -> None:
    await files.write("d/f", b"abc")
    info = await files.stat("d/f")
    assert info is not None
    assert (info.path, info.kind, info.size, info.sha256) == (f"{WORK}/d/f", "file", 3, None)
    digest = await files.stat("d/f", digest=True)
    assert digest is not None
    assert digest.sha256 == hashlib.sha256(b"abc").hexdigest()
    for path in ("d", "", "/mnt/user-data/outputs", "/mnt/user-data", "/mnt"):
        found = await files.stat(path, digest=True)
        assert found is not None
        assert (found.kind, found.sha256) == ("dir", None)
    for path in ("x", "d/x", "x/y", "d/f/x"):
        assert await files.stat(path) is None


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../etc/passwd", "C:\\a", "/mnt/other/x"])
async def test_paths_outside_are_refused(files: Files, path: str) -> None:
    for call in (
        files.read(path),
        files.write(path, b""),
        files.stat(path),
        files.listdir(path),
        files.glob("*", path=path),
        files.grep("x", path=path),
    ):
        with pytest.raises(PathError) as caught:
            await call
        assert WORK in caught.value.cure


async def test_missing_files_and_directories(files: Files) -> None:
    await files.write("d/f", b"")
    for call in (
        files.read("x"),
        files.read("x/y"),
        files.listdir("x"),
        files.glob("*", path="x"),
        files.grep("x", path="x"),
    ):
        with pytest.raises(PathError, match="does not exist"):
            await call
    with pytest.raises(PathError, match="is a directory"):
        await files.read("d")
    with pytest.raises(PathError, match="is a directory"):
        await files.write("d", b"")
    with pytest.raises(PathError, match="not a directory"):
        await files.write("d/f/x", b"")
    with pytest.raises(PathError, match="not a directory"):
        await files.listdir("d/f")


async def test_skills_are_read_only(files: Files) -> None:
    assert await files.read("/mnt/skills/public/pdf/SKILL.md") == SKILL
    assert [hit.line for hit in await files.grep("^name", path="/mnt/skills")] == [2]
    for path in ("/mnt/skills/public/pdf/SKILL.md", "/mnt/skills/public/new"):
        with pytest.raises(PathError, match="read-only"):
            await files.write(path, b"")


async def test_expected_version(files: Files) -> None:
    first = await files.write("f", b"1")
    await files.write("f", b"2", expect_sha256=first.sha256)
    for path in ("f", "missing"):
        with pytest.raises(ConflictError):
            await files.write(path, b"3", expect_sha256=first.sha256)
    assert await files.read("f") == b"2"
    assert await files.stat("missing") is None


async def test_listdir(files: Files) -> None:
    for path in ("b/c/d.txt", "b/a.txt", "a.txt", "B", ".tool-results/x", ".hidden"):
        await files.write(path, b"12")
    flat = await files.listdir("")
    assert [(info.path.removeprefix(WORK), info.kind) for info in flat] == [
        ("/.hidden", "file"),
        ("/B", "file"),
        ("/a.txt", "file"),
        ("/b", "dir"),
    ]
    deep = await files.listdir("", depth=3)
    assert [info.path.removeprefix(WORK) for info in deep] == [
        "/.hidden",
        "/B",
        "/a.txt",
        "/b",
        "/b/a.txt",
        "/b/c",
        "/b/c/d.txt",
    ]
    assert [info.path for info in await files.listdir("", depth=3, limit=2)] == [
        f"{WORK}/.hidden",
        f"{WORK}/B",
    ]
    assert [info.path for info in await files.listdir(".tool-results")] == [
        f"{WORK}/.tool-results/x"
    ]
    assert [info.path for info in await files.listdir("/mnt/user-data")] == [
        "/mnt/user-data/outputs",
        "/mnt/user-data/uploads",
        WORK,
    ]


async def test_glob(files: Files) -> None:
    for path in ("old.py", "src/a.py", "src/deep/b.py", "src/deep/c.md", ".tool-results/t.py"):
        await files.write(path, b"")
    await files.write("src/a.py", b"newer")
    found = [path.removeprefix(WORK) for path in await files.glob("**/*.py")]
    assert found[0] == "/src/a.py"
    assert sorted(found) == ["/old.py", "/src/a.py", "/src/deep/b.py"]
    assert await files.glob("*.py") == [f"{WORK}/old.py"]
    assert len(await files.glob("**/*.{py,md}", limit=2)) == 2
    assert await files.glob(f"{WORK}/src/*/[bc].md") == [f"{WORK}/src/deep/c.md"]
    assert await files.glob("*.md", path="src/deep") == [f"{WORK}/src/deep/c.md"]
    assert await files.glob(".tool-results/*") == [f"{WORK}/.tool-results/t.py"]
    assert await files.glob("src/deep/none-?.py") == []
    with pytest.raises(ToolError, match="alternatives"):
        await files.glob("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}")


async def test_grep(files: Files) -> None:
    await files.write("a.py", "\ufeffimport x\r\nдом = 1\r\n".encode())
    await files.write("d/b.py", b"y\n" * 3 + b"import \xff z")
    await files.write("c.md", b"import nothing")
    await files.write("binary", b"\0import")
    await files.write(".tool-results/t", b"import")
    hits = await files.grep("^import", include="*.py")
    assert [(hit.path.removeprefix(WORK), hit.line, hit.text) for hit in hits] == [
        ("/a.py", 1, "import x"),
        ("/d/b.py", 4, "import \\xff z"),
    ]
    assert [hit.line for hit in await files.grep("дом", path="a.py")] == [2]
    assert len(await files.grep("y", limit=2)) == 2
    assert [hit.path for hit in await files.grep("import", include="d/*")] == [f"{WORK}/d/b.py"]
    with pytest.raises(ToolError, match="no regular expression"):
        await files.grep("(")


async def test_long_lines_are_cut_around_the_match(files: Files) -> None:
    await files.write("f", b"a" * 3000 + b"needle" + b"b" * 3000)
    [hit] = await files.grep("needle")
    assert "needle" in hit.text
    assert len(hit.text) <= 500
