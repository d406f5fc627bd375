"""One agent's bash: framing, state, forks, time-outs, limits, on every level of the machine."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from deerflow.errors import SandboxError
from deerflow.sandbox.protocol import CommandResult, Level
from fakes.sandboxes import EVERY, Bench, bench_or_skip, processes_of, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
WORKSPACE = "/mnt/user-data/workspace"
_AGENTS = itertools.count()
COUNT = "ps -o args= -u $(id -u) | grep -c '^sleep 94'"


class Hand:
    """A fresh agent's hand on a shared sandbox."""

    def __init__(self, place: Bench) -> None:
        self.place = place
        self.agent = f"agent-{next(_AGENTS)}"

    async def __call__(self, command: str, **keys: object) -> CommandResult:
        return await self.place.sandbox.run(command, agent=self.agent, **keys)  # type: ignore[arg-type]

    async def out(self, command: str, **keys: object) -> str:
        return (await self(command, **keys)).output

    async def end(self) -> None:
        """End the shell, so that the next test has the sandbox's limits for itself."""
        shell = self.place.sandbox._shells.pop(self.agent, None)
        if shell is not None:
            await shell.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=EVERY)
async def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Bench, None]:
    level: Level = request.param
    async with bench_or_skip(level, tmp_path_factory.mktemp(level)) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def run(place: Bench) -> AsyncGenerator[Hand, None]:
    hand = Hand(place)
    yield hand
    await hand.end()


async def test_output_and_code(run: Hand) -> None:
    result = await run("echo one; echo two >&2; echo three; exit 7")
    assert (result.output, result.exit_code, result.total_bytes) == ("one\ntwo\nthree\n", 7, 14)
    assert (result.spill, result.timed_out, result.limit) == (None, False, None)
    assert result.cwd == WORKSPACE


async def test_state_stays(run: Hand) -> None:
    await run("mkdir -p sub && cd sub; export A=1; b=2; f() { echo f:$1; }; shopt -s extglob")
    result = await run("pwd; echo $A $b; f x; shopt extglob")
    assert result.output == f"{WORKSPACE}/sub\n1 2\nf:x\nextglob        \ton\n"
    assert result.cwd == f"{WORKSPACE}/sub"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("echo 'unbalanced", 2, "unexpected EOF"),
        ("if true; then", 2, "syntax error"),
        ("echo hi )", 2, "syntax error"),
        ("cat <<X\nbody\nX", 0, "body\n"),
        ("cat <<X\nno end", 0, "no end\n"),
        ("cat", 0, ""),
        ("read x; echo code $?", 0, "code 1\n"),
        ("no-such-command", 127, "command not found"),
        ("printf 'a\\0b\\377'", 0, "a\\x00b\\xff"),
        ("printf tail", 0, "tail"),
        ("# only a comment", 0, ""),
        ("", 0, ""),
        ("false", 1, ""),
        ("true &", 0, ""),
        ("exec echo replaced", 0, "replaced\n"),
        ("set -e; false; echo never", 1, ""),
        ("set -u; echo $nowhere", 127, "unbound variable"),
        ("kill -9 $$", 137, ""),
        ("exec 1>&-; echo lost", 1, "Bad file descriptor"),
        ("trap 'echo bye' EXIT; exit 4", 4, "bye\n"),
        ("echo 范围 — 结论 🦌", 0, "范围 — 结论 🦌\n"),
        ("return 5", 2, "can only `return'"),
    ],
)
async def test_framing_survives(run: Hand, command: str, code: int, words: str) -> None:
    await run("cd /usr; export KEPT=yes")
    result = await run(command)
    assert result.exit_code == code, result
    assert words in result.output and (words or not result.output)
    assert await run.out("echo $KEPT; pwd") == "yes\n/usr\n"


async def test_long_command(run: Hand) -> None:
    body = "x" * 300_000
    assert await run.out(f"cat > long.txt <<'END'\n{body}\nEND\nwc -c < long.txt") == "300001\n"


async def test_background_process_lives_on_and_prints_nowhere_else(run: Hand) -> None:
    started = await run(
        "(while [ ! -e go ]; do sleep 0.02; done; echo late; touch went) & echo now"
    )
    assert started.output == "now\n"
    await run("exit 3")
    await run("kill -9 $$")
    assert (
        await run.out("touch go; while [ ! -e went ]; do sleep 0.02; done; echo mine") == "mine\n"
    )


async def test_time_out_ends_the_command_alone(run: Hand) -> None:
    await run("cd /usr; export A=1; sleep 940 & echo $! > $HOME/early")
    command = "setsid sleep 941 & (sleep 942 &) ; cd /; while :; do sleep 0.1; done"
    result = await run(command, timeout=0.4)
    assert (result.exit_code, result.timed_out, result.limit) == (124, True, "time")
    check = "pwd; echo $A; kill -0 $(cat $HOME/early) && echo alive; "
    assert await run.out(check + COUNT) == "/usr\n1\nalive\n1\n"


async def test_time_out_keeps_what_was_printed(run: Hand) -> None:
    result = await run("echo before; sleep 60", timeout=0.3)
    assert result.output == "before\n"


async def test_builtin_loop_is_stopped(run: Hand) -> None:
    assert (await run("while :; do :; done", timeout=0.3)).timed_out
    assert await run.out("echo again") == "again\n"


async def test_forks_run_at_once_and_change_nothing(run: Hand) -> None:
    await run("rm -f a b; cd /usr; export A=1; v=2; f() { echo f; }")

    def meet(mine: str, other: str, code: int) -> str:
        wait = f"touch $HOME/{mine}; until [ -e $HOME/{other} ]; do sleep 0.02; done"
        return f"{wait}; pwd; echo $A $v; f; cd /; export A=9; v=9; exit {code}"

    first, second = await asyncio.gather(
        run(meet("a", "b", 3), alone=False), run(meet("b", "a", 4), alone=False)
    )
    assert (first.output, first.exit_code) == ("/usr\n1 2\nf\n", 3)
    assert (second.output, second.exit_code, second.cwd) == ("/usr\n1 2\nf\n", 4, "/usr")
    assert await run.out("pwd; echo $A $v") == "/usr\n1 2\n"


async def test_a_forks_time_out_spares_the_others(run: Hand) -> None:
    await run("sleep 940 & rm -f done")
    slow, good, _ = await asyncio.gather(
        run("setsid sleep 941 & sleep 942", alone=False, timeout=0.4),
        run("until [ -e $HOME/done ]; do sleep 0.02; done; echo good", alone=False),
        _touch_after(run, "done"),
    )
    assert (slow.exit_code, slow.timed_out) == (124, True)
    assert (good.exit_code, good.output) == (0, "good\n")
    assert await run.out(COUNT) == "1\n"


async def _touch_after(run: Hand, name: str) -> None:
    """Make a file after the slow neighbour has surely been stopped."""
    await run("sleep 0.8", alone=False)
    await run.place.sandbox.write(name, b"")


async def test_a_fork_under_set_e(run: Hand) -> None:
    await run("set -e")
    assert (await run("echo a; false; echo b", alone=False)).output == "a\n"


async def test_cancelled_command_is_gone(run: Hand) -> None:
    await run("rm -f began; sleep 940 &")
    task = asyncio.ensure_future(run("touch began; setsid sleep 941 & sleep 942"))
    file = run.place.folders.workspace / "began"
    assert await until(file.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await run.out(COUNT) == "1\n"


async def test_long_output_is_cut_and_kept(run: Hand) -> None:
    result = await run("seq 1 20000")
    assert result.total_bytes == 108_894
    assert len(result.output) <= 20_000
    assert result.output.startswith("1\n2\n") and result.output.endswith("19999\n20000\n")
    assert result.spill is not None and result.spill in result.output
    whole = await run.place.sandbox.read(result.spill)
    assert whole == "".join(f"{n}\n" for n in range(1, 20001)).encode()


async def test_very_long_output_streams_to_the_spill_file(run: Hand) -> None:
    result = await run("yes | head -c 20M; echo end")
    assert result.total_bytes == (20 << 20) + 4
    assert result.output.endswith("y\ny\nend\n") and len(result.output) <= 20_000
    assert result.spill is not None
    info = await run.place.sandbox.stat(result.spill)
    assert info is not None and info.size == result.total_bytes
    await run("rm -rf .tool-results")


async def test_output_beyond_the_disk_limit_stops_the_command(run: Hand) -> None:
    result = await run("yes")
    assert (result.limit, result.timed_out, result.exit_code) == ("disk", False, 137)
    await run("rm -rf .tool-results")
    assert await run.out("echo on") == "on\n"


async def test_cut_multibyte_text_is_whole_characters(run: Hand) -> None:
    result = await run("for i in $(seq 30000); do echo -n 结; done")
    assert "\\x" not in result.output and result.output.startswith("结结")


async def test_no_host_path_comes_back(run: Hand) -> None:
    command = (
        "pwd -P; env; readlink -f .; cat /mnt/user-data/none; ls -l /proc/self/fd; "
        "cd /nowhere; realpath ../uploads; /mnt/skills/public/none; echo $0 $BASH_SOURCE; "
        "readlink /mnt/skills/public/SKILL.md -f; cat /proc/self/cmdline; declare -p"
    )
    result = await run(command)
    assert str(run.place.home) not in result.output
    assert result.output.startswith(f"{WORKSPACE}\n")
    assert "/mnt/user-data/uploads\n" in result.output
    assert await run.out("cat /mnt/skills/*/SKILL.md") == "a custom skill\na public skill\n"


async def test_nul_is_refused(run: Hand) -> None:
    with pytest.raises(SandboxError, match="NUL"):
        await run("echo \0")


async def test_shell_killed_from_outside_is_replaced(run: Hand) -> None:
    await run("cd /usr; export A=1; echo kept > kept.txt 2>/dev/null; echo kept > $HOME/kept.txt")
    shell = run.place.sandbox._shells[run.agent]
    wire = shell._wire
    assert wire is not None and wire.cradle is not None
    run.place.sandbox.estate.ground.nursery.kill(wire.cradle)
    await wire.cradle.gone.wait()
    assert await until(lambda: shell._wire is None)
    assert await run.out("pwd; echo $A; cat $HOME/kept.txt") == "/usr\n1\nkept\n"


async def test_agents_have_their_own_shell_and_share_the_files(place: Bench) -> None:
    lead, child = Hand(place), Hand(place)
    await lead("cd /usr; export A=lead; echo shared > $HOME/shared.txt")
    assert await child.out("pwd; echo ${A-none}; cat shared.txt") == f"{WORKSPACE}\nnone\nshared\n"
    await lead.end()
    await child.end()


async def test_file_limit(run: Hand) -> None:
    if run.place.sandbox.level == "host":
        pytest.skip("the host is not limited")
    result = await run("head -c 30M /dev/zero > big")
    assert (result.exit_code, result.limit) == (153, "disk")
    await run("rm -f big")


async def test_disk_limit_by_many_files(run: Hand) -> None:
    command = "for i in $(seq 100000); do head -c 4M /dev/zero > f$((i % 40)); sleep 0.02; done"
    result = await run(command)
    assert result.limit == "disk"
    with pytest.raises(SandboxError, match="MiB"):
        await run.place.sandbox.write("more", b"x" * (8 << 20))
    await run("rm -f f*")


async def test_memory_limit_is_named(run: Hand) -> None:
    group = run.place.sandbox.estate.ground.group
    if group is None or not group.bounds_memory:
        pytest.skip("no cgroup bounds memory here")
    result = await run("head -c 400M /dev/zero | tail | wc -c")
    assert result.limit == "memory"
    assert await run.out("echo on") == "on\n"


async def test_pid_limit_is_named(run: Hand) -> None:
    group = run.place.sandbox.estate.ground.group
    if group is None or not group.bounds_memory:
        pytest.skip("no cgroup here")
    code = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(3); os._exit(0)"
    result = await run(f"/usr/bin/python3 - <<'PY'\n{code}\nPY", timeout=10)
    assert result.exit_code != 0
    assert result.limit in ("pids", None)  # RLIMIT_NPROC may strike before the cgroup does


async def test_forged_replies_of_a_shell_queue_no_requests(run: Hand) -> None:
    await run("export BIG=$(head -c 100000 /dev/zero | tr '\\0' x)")
    await run("for i in {1..100}; do printf 'R\\0001\\0'; done >&251; sleep 0.2")
    wire = run.place.sandbox._shells[run.agent]._wire
    assert wire is not None
    assert len(wire._pending) < 1 << 20
    assert await run.out("echo alive") == "alive\n"


async def test_a_shell_that_forges_its_restarts_is_ended(run: Hand) -> None:
    await run("export BIG=$(head -c 100000 /dev/zero | tr '\\0' x)")
    await run("for i in {1..1000}; do printf 'X\\0001\\0R\\0001\\0'; done >&251; sleep 5")
    for _ in range(1001):  # each forged end may cut one of them off
        answer = await run.out("echo ${#BIG}")
        if answer == "100000\n":
            break
    assert answer == "100000\n"


async def test_a_forged_number_of_any_length_is_harmless(run: Hand) -> None:
    forged = "printf 'F\\0%s\\0%s\\0' $DEERFLOW_CALL $(printf '9%.0s' {1..5000}) >&251"
    assert (await run(forged)).exit_code in (0, 1)
    assert await run.out("echo alive") == "alive\n"


async def test_fresh_shell_starts_where_the_thread_was(run: Hand) -> None:
    assert (await run("pwd", cwd="/mnt/user-data/outputs")).output == "/mnt/user-data/outputs\n"


async def test_missing_start_directory_falls_back_to_the_workspace(run: Hand) -> None:
    assert (await run("pwd", cwd="/mnt/user-data/gone")).output == f"{WORKSPACE}\n"


async def test_released_shell_leaves_nothing(tmp_path: Path, place: Bench) -> None:
    async with bench_or_skip(place.sandbox.level, tmp_path) as other:
        sandbox = other.sandbox
        await sandbox.run("setsid sleep 940 & (sleep 941 &); nohup sleep 942 > /dev/null 2>&1 &")
        running = asyncio.ensure_future(sandbox.run("sleep 943"))
        assert await until(lambda: len(processes_of(sandbox)) > 3)
        await other.provider.release("one")
        assert processes_of(sandbox) == set()
        assert (await running).exit_code == 137
        with pytest.raises(SandboxError, match="released"):
            await sandbox.run("true")
