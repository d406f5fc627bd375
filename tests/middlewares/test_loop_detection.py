"""Row 14: loops are warned and refused by progress; honest work never trips."""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from deerflow.agent.calls import BAD_CALLS, CallBook
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import ModelCall, ModelReply
from deerflow.agent.journal import LIMIT
from deerflow.config.tools import LoopDetectionConfig, ToolFrequencyLimits
from deerflow.middlewares.loop_detection import (
    REFUSED_TURNS,
    LoopDetectionMiddleware,
    forget_reads,
)
from deerflow.models.scripted import ScriptedChatModel
from fakes.agents import ModelRows
from fakes.catalogs import ScriptedCatalog
from fakes.rows import call_tool, events, request, run_context, tool

TOOLS = [
    tool("bash"),
    tool("write_file"),
    tool("read_file", idempotent=True),
    tool("grep", idempotent=True),
]
World = Callable[[str, dict[str, Any]], str]
Asked = tuple[str, dict[str, Any]]


class Loop:
    """A run whose model asks what the test says and whose tools answer as `world` says."""

    def __init__(self, world: World, run: RunContext | None = None, **config: Any) -> None:
        self.world = world
        self.run = run or run_context()
        self.row = LoopDetectionMiddleware(LoopDetectionConfig(**config))
        self.messages: list[AnyMessage] = [HumanMessage("go", id=self.run.input_id)]
        self.ran: list[Asked] = []
        self.refused: list[str] = []
        self.warned: list[str] = []
        self.book = CallBook()

    async def turn(self, *asked: Asked) -> ModelReply:
        number = len(self.messages)
        reply_message = AIMessage(
            "",
            id=f"ai-{number}",
            tool_calls=[
                {"name": name, "args": args, "id": f"c{number}-{index}", "type": "tool_call"}
                for index, (name, args) in enumerate(asked)
            ],
        )

        async def terminal(_call: ModelCall) -> ModelReply:
            return ModelReply(reply_message)

        state = {"messages": self.messages}
        call = ModelCall(
            ScriptedChatModel(), self.messages, None, TOOLS, {}, state, self.run, number
        )
        reply = await self.row.model(call, terminal)
        assert reply.message is not None
        message = self.book.settle(reply.message, reply.results)
        answers = {result.tool_call_id: result for result in reply.results}
        self.messages = [*self.messages, message]
        if reply.jump == "end":
            return reply
        for tool_call in message.tool_calls:
            id_ = tool_call["id"] or ""
            if id_ in answers:
                self.refused.append(str(answers[id_].content))
                self.messages.append(answers[id_])
                continue
            self.messages.append(await self.execute(tool_call["name"], tool_call["args"], id_))
        return reply

    async def execute(self, name: str, args: dict[str, Any], id_: str) -> ToolMessage:
        target = next(t for t in TOOLS if t.name == name)
        asked = request(target, self.run, {"messages": self.messages}, **args)
        object.__setattr__(asked, "tool_call", {**asked.tool_call, "id": id_})
        object.__setattr__(asked.runtime, "tools", TOOLS)

        async def effect(**given: Any) -> str:
            self.ran.append((name, given))
            return self.world(name, given)

        result = await call_tool([self.row], self.run, asked, effect)
        assert isinstance(result, ToolMessage)
        text = str(result.content)
        if "[loop_detection]" in text:
            self.warned.append(text)
        return result


def same(_name: str, _args: dict[str, Any]) -> str:
    return "nothing to see"


def bash(command: str) -> Asked:
    return ("bash", {"command": command})


def read(path: str, **window: Any) -> Asked:
    return ("read_file", {"path": path, **window})


# ---- honest work ---------------------------------------------------------------------------------


async def test_p03_forty_similar_commands_run_to_the_end():
    loop = Loop(lambda _name, args: f"created {args['command'][-2:]}.csv")
    for number in range(40):
        await loop.turn(bash(f"tool sample_{number:02}"))
    assert len(loop.ran) == 40
    assert loop.refused == [] and loop.warned == []


async def test_p03_also_when_every_command_prints_the_same():
    loop = Loop(lambda _name, _args: "OK")
    for number in range(120):
        await loop.turn(bash(f"tool sample_{number}"))
    assert len(loop.ran) == 120 and loop.refused == [] and loop.warned == []


async def test_p03_sixty_different_files_may_be_read_without_a_pause():
    loop = Loop(lambda _name, args: f"the text of {args['path']}\nand its end {args['path']}")
    for number in range(60):
        await loop.turn(read(f"f{number}"))
    assert len(loop.ran) == 60 and loop.refused == [] and loop.warned == []


async def test_p03_rereading_after_a_compaction_is_allowed():
    loop = Loop(lambda _name, args: f"text of {args['path']}")
    for _ in range(4):
        await loop.turn(read("a"))
    forget_reads(loop.run)
    for _ in range(3):
        await loop.turn(read("a"))
    assert len(loop.ran) == 7 and loop.refused == []


async def test_p03_only_the_repeated_call_of_a_turn_is_refused():
    loop = Loop(same)
    for _ in range(4):
        await loop.turn(bash("make"))
    loop.ran.clear()
    reply = await loop.turn(bash("make"), bash("a"), bash("b"), bash("c"))
    assert loop.ran == [bash("a"), bash("b"), bash("c")]
    assert len(loop.refused) == 1 and reply.jump is None
    assert [m.tool_call_id for m in loop.messages[-4:] if isinstance(m, ToolMessage)] == [
        c["id"] for c in (reply.message.tool_calls if reply.message else ())
    ]


async def test_test_edit_test_is_progress():
    loop = Loop(lambda name, _args: "1 failed" if name == "bash" else "written")
    for number in range(12):
        await loop.turn(bash("pytest"))
        await loop.turn(("write_file", {"path": "a.py", "content": str(number)}))
    assert len(loop.ran) == 24 and loop.refused == [] and loop.warned == []


async def test_polling_something_that_changes_is_progress():
    lines: list[str] = []

    def world(_name: str, _args: dict[str, Any]) -> str:
        lines.append(f"line {len(lines)}")
        return "\n".join(lines)

    loop = Loop(world)
    for _ in range(40):
        await loop.turn(read("build.log"))
    assert len(loop.ran) == 40 and loop.refused == [] and loop.warned == []


# ---- loops ---------------------------------------------------------------------------------------


async def test_p03_identical_calls_warn_at_three_and_stop_at_five_with_rule_and_numbers():
    loop = Loop(same)
    for _ in range(5):
        await loop.turn(bash("ls"))
    assert len(loop.ran) == 4
    assert len(loop.warned) == 2 and "call 3 of 'bash'" in loop.warned[0]
    (refused,) = loop.refused
    assert "loop_detection" in refused and "identical_calls" in refused
    assert "call 5" in refused
    told = await events(loop.run, "guard")
    assert [(e["action"], e["used"], e["limit"]) for e in told] == [
        ("warned", 3, 5),
        ("warned", 4, 5),
        ("refused", 5, 5),
    ]
    assert {e["rule"] for e in told} == {"loop_detection"}


async def test_the_order_of_arguments_does_not_hide_a_repetition():
    loop = Loop(same)
    for number in range(5):
        args = {"path": "a", "limit": 5}
        await loop.turn(("grep", args if number % 2 else dict(reversed(args.items()))))
    assert len(loop.ran) == 4


async def test_identical_calls_inside_one_turn_count_as_well():
    loop = Loop(same)
    await loop.turn(*[bash("ls")] * 7)
    assert len(loop.ran) == 4 and len(loop.refused) == 3


async def test_an_alternating_loop_is_refused():
    loop = Loop(lambda name, args: f"{name} {args}")
    for _ in range(6):
        await loop.turn(bash("a"))
        await loop.turn(bash("b"))
    assert loop.ran.count(bash("a")) <= 5 and loop.refused


async def test_a_wide_loop_is_refused_after_the_window():
    loop = Loop(lambda name, args: f"{name} {args}")
    for _ in range(4):
        for number in range(12):
            await loop.turn(read(f"f{number}"))
            if loop.refused:
                break
    assert len(loop.ran) == 12 + 20, "a round that was new, and a window that was not"
    assert "no_progress" in loop.refused[0] and "20" in loop.refused[0]
    assert any("no_progress" in text for text in loop.warned)
    before = len(loop.ran)
    await loop.turn(read("a new one"))
    await loop.turn(read("f3"))
    assert len(loop.ran) == before + 2, "something new makes room again"


async def test_reading_one_file_in_shifted_windows_brings_nothing_new():
    text = [f"line {number}" for number in range(400)]
    loop = Loop(
        lambda _name, args: "\n".join(text[args.get("offset", 0) : args.get("offset", 0) + 100])
    )
    for number in range(60):
        await loop.turn(read("a", offset=number))
        if loop.refused:
            break
    assert "tool_frequency" in loop.refused[0] and "50" in loop.refused[0]
    assert any("tool_frequency: 30 calls" in text for text in loop.warned)
    await loop.turn(("write_file", {"path": "n", "content": "x"}))
    before = len(loop.ran)
    await loop.turn(read("a", offset=300))
    assert len(loop.ran) == before + 1


async def test_limits_of_one_tool_can_be_set():
    loop = Loop(same, tool_freq_overrides={"grep": ToolFrequencyLimits(warn=2, hard_limit=4)})
    for number in range(6):
        await loop.turn(("grep", {"pattern": str(number)}))
    assert len(loop.ran) == 5, "the first was new, four were not"


async def test_the_handle_of_a_spilled_output_does_not_hide_a_repetition():
    made = iter(range(100))
    path = "/mnt/user-data/workspace/.tool-results/"
    loop = Loop(lambda _name, _args: f"head … tail\n{path}{next(made)}.txt")
    for _ in range(5):
        await loop.turn(bash("cat big"))
    assert len(loop.ran) == 4


async def test_p03_turns_of_refused_calls_alone_end_the_run_with_the_numbers():
    loop = Loop(same)
    for _ in range(4):
        await loop.turn(bash("ls"))
    replies = [await loop.turn(bash("ls")) for _ in range(REFUSED_TURNS)]
    assert [reply.jump for reply in replies] == [None] * (REFUSED_TURNS - 1) + ["end"]
    last = replies[-1].message
    assert last is not None
    assert last.additional_kwargs[LIMIT] == {"rule": "loop_detection", "used": 5, "limit": 5}
    assert "Stopped: loop_detection" in last.text and "identical_calls" in last.text
    assert (await events(loop.run, "guard"))[-1]["action"] == "stopped"
    assert len(loop.ran) == 4


async def test_the_cursor_is_rebuilt_on_resume():
    loop = Loop(same)
    for _ in range(4):
        await loop.turn(bash("ls"))
    reborn = Loop(same, run_context(resumed=True))
    reborn.messages = loop.messages
    await reborn.turn(bash("ls"))
    assert reborn.ran == [] and len(reborn.refused) == 1
    await reborn.turn(bash("ls"))
    again = Loop(same, run_context(resumed=True))
    again.messages = reborn.messages
    reply = await again.turn(bash("ls"))
    assert reply.jump == "end", "refused turns are counted again too"


async def test_a_new_run_of_the_thread_starts_anew():
    loop = Loop(same)
    for _ in range(4):
        await loop.turn(bash("ls"))
    later = Loop(same, run_context(run_id="r2"))
    later.messages = [*loop.messages, HumanMessage("again", id="in-r2")]
    await later.turn(bash("ls"))
    assert later.ran == [bash("ls")]


def test_the_marks_of_tools_decide_who_reads():
    reading: list[BaseTool] = [t for t in TOOLS if (t.metadata or {})["deerflow"]]
    assert [t.name for t in reading] == ["read_file", "grep"]


# ---- through the chain ---------------------------------------------------------------------------


def work(*steps: str) -> dict[str, Any]:
    return {"calls": [{"name": "work", "args": {"step": step}} for step in steps]}


async def test_p03_through_the_chain_the_batch_runs_and_only_the_repetition_is_refused():
    batch = [work(f"sample_{number:02}") for number in range(40)]
    again = [work("sample_39")] * 4
    mixed = work("sample_39", "x", "y", "z")
    agent = ModelRows(ScriptedCatalog(main=[*batch, *again, mixed, "done"]))
    run = run_context()
    messages = await agent.run(run=run)
    assert messages[-1].text == "done"
    assert agent.effects[:40] == [f"sample_{number:02}" for number in range(40)]
    assert agent.effects[40:] == ["sample_39"] * 3 + ["x", "y", "z"]
    last = messages[-5:-1]
    assert [m.type for m in last] == ["tool"] * 4
    assert isinstance(last[0], ToolMessage) and "identical_calls" in last[0].text
    assert last[0].status == "error"


async def test_p03_through_the_chain_an_endless_loop_ends_with_the_limit():
    agent = ModelRows(ScriptedCatalog(main=[{**work("same"), "times": 99}]))
    messages = await agent.run()
    assert agent.effects == ["same"] * 4
    last = next(m for m in reversed(messages) if isinstance(m, AIMessage))
    assert last.additional_kwargs[LIMIT]["rule"] == "loop_detection"
    asked = [c["id"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
    assert asked == [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]


async def test_malformed_calls_are_alike_only_when_their_fault_is() -> None:
    row, run = LoopDetectionMiddleware(LoopDetectionConfig()), run_context()
    calls: list[Any] = [
        {"name": "bash", "args": {}, "id": f"c{n}", "type": "tool_call"} for n in range(12)
    ]
    faults = {str(n): f"fault {n if n < 6 else 6}" for n in range(12)}
    message = AIMessage("", id="ai", tool_calls=calls, additional_kwargs={BAD_CALLS: faults})

    async def terminal(_call: ModelCall) -> ModelReply:
        return ModelReply(message)

    messages: list[AnyMessage] = [HumanMessage("go", id=run.input_id)]
    state = {"messages": messages}
    call = ModelCall(ScriptedChatModel(script=[]), messages, None, TOOLS, {}, state, run, 1)
    reply = await row.model(call, terminal)
    assert [result.tool_call_id for result in reply.results] == ["c10", "c11"]
