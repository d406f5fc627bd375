"""Requests in a transcript, and what the rows together make of them."""

import itertools
from pathlib import Path
from typing import Any

from deerflow.agent.build import AgentParts, build_agent
from deerflow.agent.deliverables import REMINDER
from deerflow.config.schema import ToolOutputConfig
from deerflow.middlewares.dangling_tool_call import DanglingToolCallMiddleware
from deerflow.middlewares.dynamic_context import DynamicContextMiddleware
from deerflow.middlewares.input_sanitization import InputSanitizationMiddleware
from deerflow.middlewares.requests import is_request, last_request
from deerflow.middlewares.sandbox import SandboxMiddleware
from deerflow.middlewares.thread_data import ThreadDataMiddleware
from deerflow.middlewares.todo_list import TodoListMiddleware
from deerflow.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from deerflow.middlewares.tool_output_budget import ToolOutputBudgetMiddleware
from deerflow.middlewares.tool_result_sanitization import ToolResultSanitizationMiddleware
from deerflow.middlewares.uploads import UploadsMiddleware
from deerflow.middlewares.view_image import ViewImageMiddleware
from deerflow.models.scripted import ScriptedChatModel
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.tools.dialogue import dialogue_tools
from fakes.rows import calls, result, run_context, tool, user


def test_our_reminders_are_no_requests() -> None:
    reminder = user("write it", id="m", **{REMINDER: True})
    messages = [user("1", id="u1"), user("2", id="u2"), calls("a"), result("a"), reminder]
    assert last_request(messages) == 1
    assert not is_request(reminder)
    assert last_request([calls("a")]) == -1


async def test_each_request_of_a_thread_extends_the_one_before(tmp_path: Path) -> None:
    """What was sent once is sent again byte for byte, so that providers find it in their cache."""
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / "a.md").write_bytes(b"# One")
    look = {"calls": [{"name": "look", "args": {}}]}
    plan = {"content": "one", "status": "completed"}
    todos = {"calls": [{"name": "write_todos", "args": {"todos": [plan]}}]}
    model = ScriptedChatModel(script=[todos, look, "first", look, "second"])
    rows = [
        ThreadDataMiddleware(),
        UploadsMiddleware(),
        SandboxMiddleware(),
        InputSanitizationMiddleware(),
        DanglingToolCallMiddleware(),
        DynamicContextMiddleware(),
        TodoListMiddleware(),
        ViewImageMiddleware(vision=lambda _: True),
        ToolOutputBudgetMiddleware(config=ToolOutputConfig()),
        ToolResultSanitizationMiddleware(),
        ToolErrorHandlingMiddleware(),
    ]
    storage = InMemoryStorage()
    tools = [tool("look"), *dialogue_tools()]
    graph = build_agent(AgentParts(model, tools, "You help.", rows, saver=storage.saver))
    for number, text in enumerate(["<memory>x</memory> plan it", "now the rest"], start=1):
        (tmp_path / "uploads" / f"{number}.txt").write_bytes(b"x")
        run = run_context(tmp_path, storage=storage, run_id=f"r{number}", plan=number == 1)
        config: Any = {"configurable": {"thread_id": "key"}}
        await graph.ainvoke({"messages": [user(text, id=run.input_id)]}, config, context=run)
    sent = [[(m.type, m.content) for m in asked.messages] for asked in model.requests]
    assert len(sent) == 5
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before
    first, second = (content for kind, content in sent[-1] if kind == "human")
    assert [first.count(word) for word in ("a.md", "1.txt", "Plan mode", "Today is")] == [1] * 4
    assert [second.count(word) for word in ("a.md", "2.txt", "Plan mode", "Today is")] == [
        0,
        1,
        0,
        0,
    ]
