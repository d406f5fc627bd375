"""What is refused before anything is written, how names are read, and how a thread begins."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from deerflow.errors import ConflictError, DeerFlowError, NotFoundError, UsageError
from deerflow.runtime.admission import Admission
from deerflow.runtime.checks import MAX_ID, check_request, expected
from deerflow.runtime.history import address
from deerflow.runtime.request import RunRequest
from deerflow.runtime.runs import RunHandle
from deerflow.storage.protocol import RunRow, ThreadRow, Threads
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


class Quicker:
    """Threads of a storage in which somebody else makes the wanted thread a moment before."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self.opened: list[ThreadRow] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._threads, name)

    async def open_run(self, thread: ThreadRow, run_id: str, **given: Any) -> RunRow | None:
        """See Threads."""
        self.opened.append(thread)
        await self._threads.ensure(thread.user_id, thread.thread_id)
        return await self._threads.open_run(thread, run_id, **given)


async def test_a_thread_that_somebody_made_meanwhile_is_used_as_it_is(tmp_path: Path) -> None:
    upload = tmp_path / "data.txt"
    upload.write_text("5")
    async with scripted_harness([{"text": "Five."}], tmp_path) as harness:
        quicker = Quicker(harness.storage.threads)
        harness.storage.threads = quicker  # pyright: ignore[reportAttributeAccessIssue]
        request = RunRequest(task="Read it", thread_id="t", uploads=(upload,))
        result = await (await harness.runs.start(request)).result()
        (thread,) = await quicker.list("local")
        events = await harness.storage.events.read(thread.thread_key)
        (tried,) = quicker.opened

    assert (result.status, result.thread_id) == ("success", "t")
    assert tried.thread_key != thread.thread_key
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert {e.run_id for e in events} == {result.run_id}
    assert [e.type for e in events].count("run_started") == 1
    (folder,) = (tmp_path / "users/local/threads").iterdir()
    assert folder.name == thread.thread_key


async def test_one_of_two_first_runs_of_a_thread_begins(tmp_path: Path) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    script = [{"calls": [{"name": "wait", "args": {}}]}, {"text": "done"}]
    sections = {"database": {"backend": "sqlite"}}
    async with (
        scripted_harness(script, tmp_path, tools=[wait], **sections) as one,
        scripted_harness(script, tmp_path, tools=[wait], **sections) as two,
    ):
        request = RunRequest(task="Wait", thread_id="t")
        tries = [harness.runs.start(request) for harness in (one, two)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        gate.set()
        (handle,) = [result for result in results if isinstance(result, RunHandle)]
        assert sum(isinstance(result, ConflictError) for result in results) == 1
        assert (await handle.result()).text == "done"
        (thread,) = await two.storage.threads.list("local")
        (run,) = await two.storage.threads.runs(thread.thread_key)
    assert run.run_id == handle.run_id


async def test_a_refused_first_run_leaves_no_thread(tmp_path: Path) -> None:
    async with scripted_harness([], tmp_path) as harness:
        for agent in ("nobody-of-this-name", "../x"):
            with pytest.raises(DeerFlowError):
                await harness.runs.start(RunRequest(task="x", thread_id="t", agent_name=agent))
        assert await harness.storage.threads.list("local") == []


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_a_prepared_thread_gets_its_first_run(tmp_path: Path, backend: str) -> None:
    async with scripted_harness(
        [{"text": "Hi."}], tmp_path, database={"backend": backend}
    ) as harness:
        made = await harness.storage.threads.ensure("local", "t", {"by": "hand"})
        result = await (await harness.runs.start(RunRequest(task="x", thread_id="t"))).result()
        found = await harness.storage.threads.get("local", "t")
    assert result.status == "success"
    assert found is not None
    assert (found.thread_key, found.metadata) == (made.thread_key, {"by": "hand"})


async def test_what_is_prepared_is_accepted_elsewhere_as_it_was_asked(tmp_path: Path) -> None:
    request = RunRequest(
        task="Write a note into note.md",
        thread_id="t",
        user_id="anna",
        plan=True,
        max_turns=7,
        message={"content": [{"type": "text", "text": "Write"}], "additional_kwargs": {"a": 1}},
        earlier=({"content": "Before."},),
        goal="A note",
    )
    async with scripted_harness([{"text": "Hi."}], tmp_path) as harness:
        storage, admission = harness.storage, Admission(harness.parts)
        prepared = await admission.prepare(request)
        assert await storage.threads.get("anna", "t") is None  # nothing is written
        submitted = await storage.queue.submit(prepared.thread, prepared.run(), new=prepared.new)
        assert submitted is not None
        await storage.workers.register("w-1", "p", seconds=60)
        row = await storage.queue.claim(submitted.run.run_id, "w-1")
        thread = await storage.threads.by_key(submitted.run.thread_key)
        assert row is not None
        assert thread is not None
        job = await admission.accept(row, thread)
        again = await admission.accept(replace(row, attempt=2), thread)
        events = await storage.events.read(thread.thread_key)
    context = job.context
    assert (context.user_id, context.plan, context.max_turns) == ("anna", True, 7)
    assert context.expect == ("note.md",)
    assert job.input is not None
    earlier, asked = job.input["messages"]
    assert (earlier.text, earlier.id) == ("Before.", f"pre-{row.run_id}-0")
    assert (asked.content, asked.id) == (request.message["content"], context.input_id)  # type: ignore[index]
    assert asked.additional_kwargs["a"] == 1
    assert job.input["goal"]["objective"] == "A note"
    assert (job.fresh, job.shared, context.resumed) == (True, True, False)
    assert again.input is not None  # killed before the first checkpoint: it is asked once more
    assert [m.id for m in again.input["messages"]] == [earlier.id, asked.id]
    assert again.context.resumed
    told = [(e.type, e.payload.get("resumed")) for e in events]
    assert told == [("run_queued", None), ("run_started", False), ("run_started", True)]


async def test_a_state_of_another_thread_or_of_none_is_no_beginning(tmp_path: Path) -> None:
    async with scripted_harness([{"text": "Hi."}] * 2, tmp_path) as harness:
        admission, saver = Admission(harness.parts), harness.storage.saver
        for name in ("mine", "other"):
            await (await harness.runs.start(RunRequest(task="Hi", thread_id=name))).result()
        states: dict[str, str] = {}
        for name in ("mine", "other"):
            thread = await harness.storage.threads.get("local", name)
            assert thread is not None
            found: Any = await saver.aget_tuple(address(thread.thread_key))
            states[name] = found.config["configurable"]["checkpoint_id"]
        request = RunRequest(task="Again", thread_id="mine")
        for wrong in (states["other"], "1f1ece79-4bfd-6334-8004-100e9cae3394", "nonsense", ""):
            with pytest.raises(NotFoundError, match="has no checkpoint"):
                await admission.prepare(replace(request, checkpoint_id=wrong))
        # clients may write it in another way than the saver does
        said = states["mine"].replace("-", "").upper()
        prepared = await admission.prepare(replace(request, checkpoint_id=said))
        submitted = await harness.storage.queue.submit(prepared.thread, prepared.run(), new=False)
        assert submitted is not None
        job = await admission.accept(submitted.run, prepared.thread)
        await saver.aprune([prepared.thread.thread_key], strategy="delete")
        with pytest.raises(NotFoundError, match="has no checkpoint"):
            await admission.accept(submitted.run, prepared.thread)
    assert job.checkpoint_id == states["mine"]


async def test_what_a_terminal_began_goes_on_in_a_worker(tmp_path: Path) -> None:
    script = [{"text": "Four."}]
    async with scripted_harness(script, tmp_path) as harness:
        handle = await harness.runs.start(RunRequest(task="2 + 2?", thread_id="t"))
        handle.cancel()
        await handle.result()
        back = await harness.storage.queue.put_back(handle.run_id)
        assert back is not None
        await harness.storage.workers.register("w-1", "p", seconds=60)
        row = await harness.storage.queue.claim(handle.run_id, "w-1")
        thread = await harness.storage.threads.by_key(back.thread_key)
        assert row is not None
        assert thread is not None
        job = await Admission(harness.parts).accept(row, thread)
    assert job.context.resumed
    assert row.attempt == 1
