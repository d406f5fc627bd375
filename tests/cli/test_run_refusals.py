"""Bad input: one clear message, the right exit code, nothing half-written, no traceback."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from fakes.terminal import SECONDS, Desk, Ended, command, environment

NOBODY = 65534
ROOT = os.geteuid() == 0


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write([{"text": "Hello."}, {"text": "Again."}])
    return desk


def refused(ended: Ended, code: int, said: str) -> None:
    assert ended.code == code, ended
    assert said in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert ended.err.count("deerflow:") + ended.err.count("Error:") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("",), "The task is empty."),
        (("Hi", "--model", "scriptd"), "scriptd"),
        (("Hi", "--config", "none.yaml"), "none.yaml:1: there is no such file"),
        (("Hi", "--config", "broken.yaml"), "broken.yaml:3: broken YAML"),
        (("Hi", "--upload", "none.csv", "--upload", "."), "none.csv: does not exist; .: is a fold"),
        (("--thread", "elsewhere", "--resume"), "There is no thread 'elsewhere' here."),
        (("--resume",), "A resume needs the thread."),
        (("Hi", "--max-turns", "0"), "--max-turns"),
        (("Hi", "--expect", "../a.md"), "'../a.md' is no file below outputs."),
        (("Hi", "--thread", ""), "A thread id has 1 to 255"),
        ((b"\xff\xfe",), "TASK is not UTF-8 text."),
    ],
)
def test_wrong_usage(desk: Desk, args: tuple[str | bytes, ...], said: str) -> None:
    (desk.folder / "broken.yaml").write_text("models:\n  - {name: [\n")
    before = desk.tree()
    refused(desk.run("run", *args), 2, said)
    assert desk.tree() == before


def test_a_thread_of_another_home(desk: Desk) -> None:
    assert desk.run("run", "Hi", "--thread", "t").code == 0
    before = desk.tree()
    other = {"DEER_FLOW_HOME": "other"}
    refused(desk.run("run", "--thread", "t", "--resume", **other), 2, "There is no thread 't' here")
    refused(desk.run("threads", "show", "t", **other), 2, "There is no thread 't' here")
    refused(desk.run("threads", "delete", "t", **other), 2, "There is no thread 't' here")
    assert desk.tree() == before
    refused(desk.run("run", "--thread", "t", "--resume"), 2, "Nothing to resume")


def test_a_damaged_database(desk: Desk) -> None:
    data = desk.folder / ".deer-flow" / "data"
    data.mkdir(parents=True)
    (data / "deerflow.db").write_bytes(b"this is no database " * 400)
    before = desk.tree()
    refused(desk.run("run", "Hi"), 1, "is not an SQLite database")
    refused(desk.run("threads", "list"), 1, "is not an SQLite database")
    assert desk.tree() == before


def content(path: Path, change: str = "") -> list[str]:
    """Everything that a database holds, after a change if one is given."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
        return list(connection.iterdump())


def test_a_database_of_a_newer_version(desk: Desk) -> None:
    assert desk.run("run", "Hi", "--thread", "t").code == 0
    path = desk.folder / ".deer-flow" / "data" / "deerflow.db"
    content(path, "UPDATE alembic_version SET version_num = '9999'")
    before = content(path)
    refused(desk.run("run", "Hi", "--thread", "t"), 1, "schema version 9999, newer than")
    assert content(path) == before


def test_two_processes_on_one_thread(desk: Desk) -> None:
    desk.write([{"text": "word " * 400, "gap_ms": 100}])
    process = desk.start("run", "Talk", "--thread", "t", "--json")
    assert process.stdout is not None
    assert '"run_started"' in process.stdout.readline()
    try:
        refused(desk.run("run", "Me too", "--thread", "t"), 1, "is active")
        refused(desk.run("threads", "delete", "t"), 1, "active run")
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
    assert desk.run("threads", "delete", "t").code == 0


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    try:
        if mounted.returncode:
            pytest.skip("this root may not mount a tmpfs")
        yield folder
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(not ROOT, reason="mounting a small disk takes root")
def test_a_full_disk() -> None:
    with small_disk(4) as folder:
        desk = Desk(folder)
        desk.write([{"text": Random(1).randbytes(900_000).hex()}])
        filler = folder / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(4_000_000))
        before = desk.tree()
        refused(desk.run("run", "Hi"), 1, "The disk is full")
        assert desk.tree() == before  # it could not even begin
        os.truncate(filler, filler.stat().st_size - 900_000)
        stuck = desk.run("run", "Hi", "--thread", "t", "--json")  # ends though no end is written
        assert (stuck.code, stuck.err.count("The disk is full")) == (1, 1), stuck
        filler.unlink()
        desk.write([{"text": "Now it fits."}])
        ended = desk.run("run", "--thread", "t", "--resume")
        assert (ended.code, ended.out) == (0, "Now it fits.\n"), ended.err
        events = desk.run("threads", "show", "t", "--json").events
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


@pytest.fixture
def public_desk() -> Iterator[Desk]:
    """A desk that an ordinary user can reach (pytest's own folders are closed)."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        desk = Desk(Path(folder))
        desk.write([{"text": "Hello."}])
        yield desk


def as_ordinary_user(desk: Desk, *args: str) -> Ended:
    """Root ignores modes, so it becomes nobody."""
    words = command(*args)
    if ROOT:
        words = [
            "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words
        ]  # fmt: skip
    done = subprocess.run(
        words,
        cwd=desk.folder,
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if ROOT and ("setpriv" in done.stderr or "No module named" in done.stderr):
        pytest.skip(f"nobody cannot run {sys.executable}")
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_read_only_home(public_desk: Desk) -> None:
    public_desk.folder.chmod(0o555)
    before = public_desk.tree()
    refused(as_ordinary_user(public_desk, "run", "Hi"), 1, "cannot be made (Permission denied)")
    public_desk.folder.chmod(0o755)
    assert public_desk.tree() == before
    assert public_desk.run("run", "Hi", "--thread", "t").code == 0
    for path in (public_desk.folder, *public_desk.folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = public_desk.tree()
    refused(as_ordinary_user(public_desk, "run", "Hi"), 1, "read-only")
    assert public_desk.tree() == before
    for path in (public_desk.folder, *public_desk.folder.rglob("*")):
        path.chmod(0o755)


def test_an_upload_that_cannot_be_read(public_desk: Desk) -> None:
    secret = public_desk.folder / "secret.csv"
    secret.write_text("a,b\n")
    secret.chmod(0)
    before = public_desk.tree() if ROOT else {}
    ended = as_ordinary_user(public_desk, "run", "Hi", "--upload", "secret.csv")
    refused(ended, 2, "secret.csv: cannot be read (Permission denied)")
    assert not (public_desk.folder / ".deer-flow").exists()
    assert not ROOT or public_desk.tree() == before
