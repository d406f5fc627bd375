"""read_file, write_file and str_replace on both kinds of file tree."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.errors import ConflictError, PathError, ToolError
from deerflow.tools import files as file_tools_module
from deerflow.tools.limits import ToolLimits
from deerflow.tools.registry import builtin_tools
from fakes.filetrees import FILE_TREES
from fakes.toolruns import ToolRun

WORK = "/mnt/user-data/workspace"


@pytest.fixture(params=sorted(FILE_TREES))
async def run(request: pytest.FixtureRequest, tmp_path: Path) -> ToolRun:
    return ToolRun(await FILE_TREES[request.param](tmp_path))


async def test_write_read_replace(run: ToolRun) -> None:
    assert await run("write_file", path="a/深 🦌.md", content="eins\nzwei\n") == (
        f"Wrote 2 lines; {WORK}/a/深 🦌.md has 10 bytes."
    )
    assert await run("read_file", path="a/深 🦌.md") == "eins\nzwei\n"
    assert await run("str_replace", path="a/深 🦌.md", old="zwei", new="— 界") == (
        f"Changed line 2 of {WORK}/a/深 🦌.md."
    )
    data = await run.files.read("a/深 🦌.md")
    assert data == "eins\n— 界\n".encode()
    sha256 = hashlib.sha256(data).hexdigest()
    assert run.state["files_read"] == {f"{WORK}/a/深 🦌.md": sha256}


async def test_reading_notes_the_version_once(run: ToolRun) -> None:
    await run.files.write("f", b"1\n2")
    await run("read_file", path="f", end_line=1)
    assert run.state["files_read"] == {f"{WORK}/f": hashlib.sha256(b"1\n2").hexdigest()}
    run.state["files_read"]["seen"] = "kept"
    await run("read_file", path="f")
    assert run.state["files_read"]["seen"] == "kept"


async def test_windows(run: ToolRun) -> None:
    await run.files.write("f", b"".join(b"line %d\n" % n for n in range(1, 101)))
    assert await run("read_file", path="f", start_line=99) == "line 99\nline 100\n"
    assert await run("read_file", path="f", start_line="2", end_line=3) == "line 2\nline 3"
    assert await run("read_file", path="f", end_line=1) == "line 1"
    assert await run("read_file", path="f", start_line=500) == (
        f"[{WORK}/f has 100 lines; nothing is at that line.]"
    )
    with pytest.raises(ToolError, match="before line 9"):
        await run("read_file", path="f", start_line=9, end_line=2)
    await run.files.write("empty", b"")
    assert await run("read_file", path="empty") == f"[{WORK}/empty is empty.]"
    await run.files.write("blank", b"\n\n")
    assert await run("read_file", path="blank", end_line=1) == "[These lines are empty.]"


async def test_long_files_say_how_to_go_on(run: ToolRun) -> None:
    short = ToolRun(run.files, tools=builtin_tools(ToolLimits(read_chars=20)))
    await run.files.write("f", b"0123456789\n" * 3)
    first = await short("read_file", path="f")
    assert first == ("0123456789\n[lines 1-1 of 33 bytes; go on with start_line=2]")
    await run.files.write("long", b"x" * 50)
    assert await short("read_file", path="long") == (
        "x" * 20 + "\n[line 1 cut of 50 bytes; go on with start_line=1, start_char=21]"
    )
    assert await short("read_file", path="long", start_line=1, start_char=41) == "x" * 10


async def test_p02_a_huge_spilled_text_is_readable_in_slices(run: ToolRun) -> None:
    data = b"x" * 1_213_479
    await run.files.write(".tool-results/big.txt", data)
    text = await run("read_file", path=f"{WORK}/.tool-results/big.txt")
    assert len(text) < 51_000
    assert text.endswith("1,213,479 bytes; go on with start_line=1, start_char=50001]")
    rest = await run("read_file", path=".tool-results/big.txt", start_char=1_200_001)
    assert rest == "x" * 13_479
    assert await run("ls") == f"{WORK} is empty."


async def test_a_window_deep_in_a_large_file(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools_module, "CHUNK", 1000)
    data = "".join(f"zeile {n} — 界\r\n" for n in range(1, 2001)).encode()
    await run.files.write("f", data)
    text = await run("read_file", path="f", start_line=1500, end_line=1501)
    assert text == "zeile 1500 — 界\nzeile 1501 — 界"
    assert run.state["files_read"][f"{WORK}/f"] == hashlib.sha256(data).hexdigest()


async def test_bytes_that_are_no_text_are_reported(run: ToolRun) -> None:
    await run.files.write("latin.txt", "caf\xe9\n".encode("latin-1"))
    assert await run("read_file", path="latin.txt") == (
        "caf\\xe9\n\n[1 bytes are not UTF-8 and shown as \\xNN]"
    )
    await run("str_replace", path="latin.txt", old="caf", new="Caf")
    assert await run.files.read("latin.txt") == b"Caf\xe9\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 20, "view_image"),
        (b"%PDF-1.7\n1 0 obj", "python or bash"),
        (b"\x7fELF\x02\x01\x01\0", "python or bash"),
        ("text".encode("utf-16"), "iconv"),
    ],
)
async def test_binary_files_are_refused_with_a_hint(
    run: ToolRun, data: bytes, message: str
) -> None:
    await run.files.write("f", data)
    for call in (run("read_file", path="f"), run("str_replace", path="f", old="a", new="b")):
        with pytest.raises(ToolError, match=message):
            await call


async def test_text_that_looks_like_a_format_is_text(run: ToolRun) -> None:
    await run.files.write("f", b"BM is a bitmap's magic\n")
    assert await run("read_file", path="f") == "BM is a bitmap's magic\n"


async def test_crlf_and_byte_order_marks_survive(run: ToolRun) -> None:
    await run.files.write("f", "\ufeffeins\r\nzwei\r\n".encode())
    assert await run("read_file", path="f") == "eins\nzwei\n"
    await run("str_replace", path="f", old="eins\nzwei", new="1\n2\n3")
    assert await run.files.read("f") == "\ufeff1\r\n2\r\n3\r\n".encode()
    await run("write_file", path="f", content="4\n", append=True)
    assert await run.files.read("f") == "\ufeff1\r\n2\r\n3\r\n4\r\n".encode()
    text = await run("write_file", path="f", content="neu\nneu\n")
    assert await run.files.read("f") == "\ufeffneu\r\nneu\r\n".encode()
    assert text.endswith("It keeps its CRLF line ends.")


async def test_append(run: ToolRun) -> None:
    await run("write_file", path="f", content="a", append=True)
    assert await run("write_file", path="f", content="b\n", append=True) == (
        f"Appended 1 line; {WORK}/f has 3 bytes."
    )
    await run("write_file", path="f", content="---\n", append=None)
    await run("write_file", path="f", content="---\n", append=True)
    assert await run.files.read("f") == b"---\n---\n"


async def test_p04_an_identical_appended_section_is_reported(run: ToolRun) -> None:
    section = "## Findings\n\n" + "The same long paragraph about deer. " * 4 + "\n"
    await run("write_file", path="r.md", content="# Report\n")
    await run("write_file", path="r.md", content=section, append=True)
    before = await run.files.read("r.md")
    with pytest.raises(ToolError, match=r"already holds this very section \(line 2\)"):
        await run("write_file", path="r.md", content=f"\n{section}", append=True)
    assert await run.files.read("r.md") == before
    await run("write_file", path="r.md", content=section.replace("deer", "elk"), append=True)
    assert (await run.files.read("r.md")).count(b"## Findings") == 2


async def test_p04_a_section_that_is_put_in_twice_is_reported(run: ToolRun) -> None:
    section = "## Findings\n\n" + "The same long paragraph about deer. " * 4
    await run("write_file", path="r.md", content=f"# Report\n{section}\n# End\n")
    text = await run("str_replace", path="r.md", old="# End", new=f"{section}\n# End")
    assert text.endswith("Note: the section you put in now stands there 2 times.")
    text = await run("str_replace", path="r.md", old="# End", new=f"# End\n{section}  \n")
    assert text.endswith("stands there 3 times.")
    other = section.replace("deer", "elk")
    text = await run("str_replace", path="r.md", old="# End", new=f"{other}\n# End")
    assert "Note" not in text
    text = await run("str_replace", path="r.md", old="# Report", new=other)
    assert text.endswith("stands there 2 times.")


async def test_an_edit_of_a_file_that_changed_meanwhile_is_refused(run: ToolRun) -> None:
    class Racing:
        """Somebody writes between the tool's read and its write."""

        def __getattr__(self, name: str) -> object:
            return getattr(run.files, name)

        async def read(self, path: str) -> bytes:
            data = await run.files.read(path)
            await run.files.write(path, b"theirs")
            return data

    await run.files.write("f", b"mine")
    with pytest.raises(ConflictError, match="Read it again"):
        await ToolRun(Racing())("str_replace", path="f", old="mine", new="ours")
    assert await run.files.read("f") == b"theirs"


async def test_missing_files_name_their_neighbours(run: ToolRun) -> None:
    await run.files.write("report.md", b"x")
    with pytest.raises(ToolError, match=r"Near it: report\.md"):
        await run("read_file", path="raport.md")
    with pytest.raises(ToolError, match=r"There is: report\.md"):
        await run("str_replace", path="zzz", old="a", new="b")
    with pytest.raises(ToolError, match="nor does its folder"):
        await run("read_file", path="no/where")
    with pytest.raises(ToolError, match="its folder is empty"):
        await run("read_file", path="/mnt/user-data/outputs/x")
    for name in ("read_file", "write_file"):
        with pytest.raises(ToolError, match="is a directory"):
            await run(name, path=WORK, **({} if name == "read_file" else {"content": ""}))


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../etc/passwd", "C:\\Users\\a.txt"])
async def test_outside(run: ToolRun, path: str) -> None:
    for call in (
        run("read_file", path=path),
        run("write_file", path=path, content=""),
        run("str_replace", path=path, old="a", new="b"),
    ):
        with pytest.raises(PathError, match="file tree"):
            await call


async def test_relative_paths_start_in_the_agents_directory(run: ToolRun) -> None:
    run.state["sandbox"] = {"cwd": {"lead": f"{WORK}/sub", "other": "/mnt/user-data/outputs"}}
    await run("write_file", path="f", content="1")
    await run("write_file", path="deep\\g", content="2")
    await run("write_file", path="../h", content="3")
    assert await run.files.glob("**/*", path=WORK) == [
        f"{WORK}/h",
        f"{WORK}/sub/deep/g",
        f"{WORK}/sub/f",
    ]
    run.context.agent = "other"
    await run("write_file", path="f", content="4")
    assert await run.files.read("/mnt/user-data/outputs/f") == b"4"


async def test_too_large_to_edit(run: ToolRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools_module, "MAX_EDIT", 10)
    await run.files.write("f", b"x" * 11)
    with pytest.raises(ToolError, match="Use bash"):
        await run("str_replace", path="f", old="x", new="y", replace_all=True)
    with pytest.raises(ToolError, match="Use bash"):
        await run("write_file", path="f", content="y", append=True)


async def test_half_characters_write_nothing(run: ToolRun) -> None:
    await run.files.write("f", b"old")
    for call in (
        run("write_file", path="f", content="a\ud83e"),
        run("write_file", path="f", content="a\ud83e", append=True),
        run("str_replace", path="f", old="old", new="\udfff"),
    ):
        with pytest.raises(ToolError, match="half a character"):
            await call
    assert await run.files.read("f") == b"old"


ROUND = """
import asyncio, locale, sys
from pathlib import Path
from fakes.filetrees import on_disk
from fakes.toolruns import ToolRun


async def main():
    run = ToolRun(await on_disk(Path(sys.argv[1])))
    await run("write_file", path="范围 — 结论 🦌.txt", content="范围 — 结论\\n")
    await run("str_replace", path="范围 — 结论 🦌.txt", old="结论", new="é 🦌")
    assert await run("read_file", path="范围 — 结论 🦌.txt") == "范围 — é 🦌\\n"
    assert "范围 — 结论 🦌.txt" in await run("ls")
    assert "范围 — é" in await run("grep", pattern="é 🦌$")
    assert "🦌.txt" in await run("glob", pattern="*结论*")


asyncio.run(main())
print(locale.getpreferredencoding(False))
"""
FORCE = """
import _locale, builtins, functools, io, locale
locale.getpreferredencoding = lambda do_setlocale=True: {codec!r}
locale.getencoding = _locale.getencoding = lambda: {codec!r}
plain = io.open
@functools.wraps(plain)
def forced(file, mode="r", buffering=-1, encoding=None, *args, **kwargs):
    if "b" not in mode and encoding is None:
        encoding = {codec!r}
    return plain(file, mode, buffering, encoding, *args, **kwargs)
builtins.open = io.open = forced
"""


@pytest.mark.parametrize("codec", ["gbk", "cp1252", "ANSI_X3.4-1968"])
def test_p09_utf8_whatever_the_locale(tmp_path: Path, codec: str) -> None:
    """A process whose default text encoding is a legacy one; the last is that of the C locale."""
    root = Path(__file__).resolve().parents[2]
    script = tmp_path / "round.py"
    force = "" if codec.startswith("ANSI") else FORCE.format(codec=codec)
    script.write_text(force + ROUND, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-X", "utf8=0", str(script), str(tmp_path)],
        env={
            "PYTHONPATH": f"{root / 'src'}:{root / 'tests'}",
            "PYTHONIOENCODING": codec,
            "LC_ALL": "C",
            "PYTHONCOERCECLOCALE": "0",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = process.stdout.decode(errors="replace")
    assert process.returncode == 0, output
    assert output.split() == [codec]
    names = [path.name for path in (tmp_path / "user-data" / "workspace").iterdir()]
    assert names == ["范围 — 结论 🦌.txt"]
