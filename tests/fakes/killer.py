"""A harness in a process of its own that may be killed at any moment, and the zygote behind it.

The zygote imports the harness once and forks a child per command, so that a new process costs
milliseconds. Each child is a process of its own in every respect that matters here: pid, owner,
connections, threads, memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

import deerflow
import fakes
from deerflow.errors import DeerFlowError
from deerflow.models.scripted import ScriptedChatModel
from deerflow.runtime.request import RunRequest
from deerflow.wiring.harness import Harness, open_harness
from fakes.harness import loaded, scripted_config
from fakes.pursued import PURSUED

ANSWER = "All five steps are done, and nothing was done twice."
SECOND = "The thread goes on."
UNKNOWN = "Outcome unknown"


def _effect(*places: str) -> list[dict[str, Any]]:
    return [{"name": "effect", "args": {"place": place}, "id": "call_0"} for place in places]


def _call(name: str, place: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "args": {"place": place}, **more}


FIRST_STORY: list[dict[str, Any]] = [
    {"text": "I begin.", "calls": [*_effect("1a"), _call("peek", "1b")], "gap_ms": 1},
    {"calls": [_call("note", "2a")]},
    {
        "calls": [
            *_effect("3a", "3b"), _call("nothing_like_it", "3c"), _call("peek", "3d"),
            *_effect("3e"),
        ],
    },
    {"calls": [_call("failing", "4a", id="call_0"), _call("note", "4b", id="call_0")]},
    {"text": "Nearly there.", "calls": [_call("peek", "5a"), _call("flaky_peek", "5b")]},
    {"text": ANSWER, "gap_ms": 1},
]  # fmt: skip
for _number, _turn in enumerate(FIRST_STORY):
    _turn["usage"] = {"input": 10, "output": 2**_number}


def _task(kid: str) -> dict[str, Any]:
    args = {"description": kid, "prompt": f"script:{kid} Thread kin, do it."}
    return {"name": "task", "args": args | {"subagent_type": "general-purpose"}}


FAMILY: dict[str, list[dict[str, Any]]] = {
    "family": [
        {"calls": [_task("kid1"), _task("kid2"), *_effect("f1")], "gap_ms": 1},
        {"calls": _effect("f2")},
        {"text": ANSWER},
    ],
    "kid1": [
        {"calls": _effect("k1a")},
        {"calls": [_call("note", "k1b"), _call("peek", "k1c")]},
        {"text": "Kid one is done.", "gap_ms": 1},
    ],
    "kid2": [
        {"text": "I begin.", "calls": [_call("peek", "k2a")]},
        {"calls": _effect("k2b", "k2c")},
        {"text": "Kid two is done."},
    ],
}
"""A lead with two children, in the thread "kin"."""
for _number, _turn in enumerate(turn for turns in FAMILY.values() for turn in turns):
    _turn["usage"] = {"input": 10, "output": 2**_number}
STORIES = {
    **FAMILY,
    **PURSUED,
    "first": FIRST_STORY,
    "second": [{"text": SECOND, "gap_ms": 1, "usage": {"input": 10, "output": 1}}],
}


@dataclass(frozen=True)
class Order:
    """What one child does.

    Attributes:
        home: DEER_FLOW_HOME.
        threads: thread ids; each gets the request at the same time.
        story: of the task; "" resumes.
        die_at_event: kill itself when this many events of this process are committed, 0 never.
        die_at_touch: kill itself at this touch of the outside world (model or tool), 0 never.
        announce: tell the other end of the pipe `ready` in home that the harness is open.
        wait: wait before the first effect for somebody to write into the pipe `go` in home.
        seed: of the small delays.
    """

    home: str
    threads: list[str]
    story: str = ""
    die_at_event: int = 0
    die_at_touch: int = 0
    announce: bool = False
    wait: bool = False
    seed: int = 0


@dataclass
class World:
    """Everything outside of the harness: lines in files that many processes append to.

    Attributes:
        order: what the process was told.
        touches: how often the outside was touched so far.
    """

    order: Order
    touches: int = 0
    dice: random.Random = field(default_factory=random.Random)

    def touch(self) -> None:
        """A moment at which the process may be told to die."""
        self.touches += 1
        if self.touches == self.order.die_at_touch:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, ledger: str, **line: Any) -> None:
        """Append one line, whole or not at all (O_APPEND, one write)."""
        text = json.dumps({"pid": os.getpid(), **line}) + "\n"
        file = os.open(
            Path(self.order.home, f"{ledger}.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    async def pause(self) -> None:
        """0 to 5 ms, so that kills land everywhere."""
        await asyncio.sleep(self.dice.uniform(0, 0.005))

    async def act(self, ledger: str, thread: str, place: str) -> None:
        """One entry in a ledger, with a chance to die before and after it."""
        self.touch()
        await self.pause()
        if self.order.wait and ledger == "effects" and place == "1a":
            await asyncio.to_thread(Path(self.order.home, "go").read_text)
        self.write(ledger, thread=thread, place=place)
        self.touch()
        await self.pause()


def read_ledger(home: Path, ledger: str) -> list[dict[str, Any]]:
    """Lines of a ledger, oldest first."""
    file = home / f"{ledger}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class WatchedModel(ScriptedChatModel):
    """A scripted model that notes each request in the ledger `requests`.

    Attributes:
        world: where it is noted.
    """

    world: Any = None

    def _take(self, messages: Any, kwargs: Any) -> Any:
        start = max(i for i, m in enumerate(messages) if m.type == "human" and "script:" in m.text)
        answered = sum(m.type == "ai" for m in messages[start:])
        story, thread = re.findall(r"script:(\w+) Thread (\w+)", messages[start].text)[-1]
        self.world.touch()
        self.world.write(
            "requests", thread=thread, story=story, answered=answered, legal=is_legal(messages)
        )
        return super()._take(messages, kwargs)

    async def _pieces(self, turn: Any) -> AsyncIterator[tuple[str, str]]:
        await self.world.pause()
        async for piece in super()._pieces(turn):
            yield piece
            self.world.touch()
        self.world.touch()


def is_legal(messages: Any) -> bool:
    """Each call has exactly one result, in call order, directly after it, and none is elsewhere."""
    owed: list[str] = []
    for message in messages:
        if message.type == "tool":
            if not owed or owed.pop(0) != message.tool_call_id:
                return False
        elif owed:
            return False
        elif message.type == "ai":
            owed = [call["id"] for call in message.tool_calls]
    return not owed


def make_tools(world: World) -> list[BaseTool]:
    """Effects (a journal must keep them from happening twice) and idempotent reads."""

    async def effect(place: str, runtime: ToolRuntime) -> str:
        """Leave a mark outside."""
        await world.act("effects", runtime.context.thread_id, place)
        return f"did {place}"

    async def note(place: str, runtime: ToolRuntime) -> Any:
        """Leave a mark outside and in the state."""
        await world.act("effects", runtime.context.thread_id, place)
        message = ToolMessage(f"did {place}", tool_call_id=runtime.tool_call_id, name="note")
        return Command(update={"artifacts": [f"/{place}"], "messages": [message]})

    async def failing(place: str, runtime: ToolRuntime) -> str:
        """Leave a mark outside, then fail."""
        await world.act("effects", runtime.context.thread_id, place)
        raise ValueError(f"broke at {place}")

    async def peek(place: str, runtime: ToolRuntime) -> str:
        """Read."""
        await world.act("reads", runtime.context.thread_id, place)
        return f"saw {place}"

    async def flaky_peek(place: str, runtime: ToolRuntime) -> str:
        """Read something that is another one each time and fails."""
        await world.act("reads", runtime.context.thread_id, place)
        raise ValueError(f"nothing at {place} for {os.getpid()}")

    made: list[BaseTool] = []
    for function in (effect, note, failing, peek, flaky_peek):
        marks = {"idempotent": True} if "peek" in function.__name__ else {}
        made.append(StructuredTool.from_function(coroutine=function, metadata={"deerflow": marks}))
    return made


@asynccontextmanager
async def killer_harness(world: World) -> AsyncGenerator[Harness]:
    """A harness on SQLite with the stories and the tools of the world."""
    model = {
        "name": "scripted",
        "use": f"{__name__}:{WatchedModel.__name__}",
        "script": STORIES,
        "follow": "transcript",
        "world": world,
    }
    home = Path(world.order.home)
    config = scripted_config([], models=[model], database={"backend": "sqlite"})
    async with open_harness(loaded(config, home), {}, tools=make_tools(world)) as harness:
        yield harness


async def _watch(harness: Harness, thread_id: str, limit: int) -> None:
    """Die when `limit` further events of the thread are committed."""
    thread = await harness.storage.threads.ensure("local", thread_id)
    after = thread.last_seq
    async for event in harness.storage.events.follow(thread.thread_key, after=after):
        if event.seq - after >= limit:
            os.kill(os.getpid(), signal.SIGKILL)


async def _child(order: Order) -> None:
    world = World(order, dice=random.Random(order.seed))
    async with killer_harness(world) as harness:
        watchers = [
            asyncio.create_task(_watch(harness, thread, order.die_at_event))
            for thread in order.threads[:1]
            if order.die_at_event
        ]
        await asyncio.sleep(0)
        if order.announce:
            await asyncio.to_thread(Path(order.home, "ready").write_text, "1")
        await asyncio.gather(*(_one(harness, world, thread) for thread in order.threads))
        for watcher in watchers:
            watcher.cancel()


async def _one(harness: Harness, world: World, thread: str) -> None:
    order = world.order
    task = f"script:{order.story} Thread {thread}, do it." if order.story else ""
    goal = f"script:judge Thread {thread}" if order.story == "goal" else None
    request = RunRequest(task=task, thread_id=thread, resume=not task, goal=goal)
    try:
        handle = await harness.runs.start(request)
        result = await handle.result()
    except DeerFlowError as error:
        world.write("ends", thread=thread, status="refused", answer=error.code)
        return
    world.write("ends", thread=thread, status=result.status, answer=result.text)


class Child:
    """A forked process."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self._zygote = zygote
        self.pid = pid

    def kill(self) -> None:
        """SIGKILL, nothing less; the pid is ours until `wait` has reaped it."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> bool:
        """Whether it was killed; False when it came to its end before."""
        code = self._zygote.ask({"wait": self.pid})
        assert code in (0, -signal.SIGKILL), f"the child failed with {code}, see stderr"
        return code != 0


class Zygote:
    """Handle of the process that forks children."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, command: dict[str, Any]) -> int:
        """One command, one number back."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(self, order: Order) -> Child:
        """Fork a child that obeys the order."""
        return Child(self, self.ask({"order": asdict(order)}))


@contextmanager
def zygote() -> Iterator[Zygote]:
    """A running zygote; it ends with its input."""
    folders = [str(Path(package.__path__[0]).parent) for package in (fakes, deerflow)]
    code = f"import sys; sys.path[:0] = {folders}; from {__name__} import serve; serve()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Zygote(process)
        assert process.stdin is not None
        process.stdin.close()


def serve() -> None:
    """The zygote: no thread, no connection, no loop; it forks and reaps."""
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            _, status = os.waitpid(command["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                _become(Order(**command["order"]))
        print(answer, flush=True)


def _become(order: Order) -> None:
    """The child's whole life; it never returns into the zygote's loop."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        logging.disable(logging.WARNING)  # of the tools that fail on purpose
        asyncio.run(_child(order))
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        os._exit(code)
