"""Row 9: plan mode, the plan in sight, and the one question about what is left open."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from deerflow.agent.deliverables import REMINDER
from deerflow.middlewares.todo_list import FAR, TodoListMiddleware
from fakes.rows import calls, events, result, run_context, started, turn, user

ROW = TodoListMiddleware()
OPEN = [
    {"content": "read <memory>", "status": "completed"},
    {"content": "write it", "status": "in_progress"},
]
DONE = [{**todo, "status": "completed"} for todo in OPEN]


def planned(**more: Any) -> dict[str, Any]:
    return {"messages": [user("do it"), calls("write_todos"), result("write_todos")], **more}


async def test_without_a_plan_the_list_passes_untouched() -> None:
    state = {"messages": [user("hi")]}
    assert await ROW.start(state, run_context()) is None
    sent, reply = await turn([ROW], state, run_context())
    assert sent is state["messages"]
    assert reply.jump is None


async def test_plan_mode_is_told_after_the_request_and_reads_the_same_later() -> None:
    state = await started([ROW], {"messages": [user("do it", id="u1")]}, run_context(plan=True))
    sent, _ = await turn([ROW], state, run_context(plan=True))
    assert sent is not None
    assert str(sent[0].content).startswith("do it\n\n<system-reminder>\nPlan mode:")
    state["messages"] = [*state["messages"], AIMessage("ok", id="a"), user("thanks", id="u2")]
    state = await started([ROW], state, run_context(plan=False))
    later, _ = await turn([ROW], state, run_context(plan=False))
    assert later is not None
    assert later[0] == sent[0]
    assert later[2].content == "thanks"


async def test_a_plan_mark_from_the_client_counts_for_nothing() -> None:
    state = {"messages": [user("hi", deerflow_plan=True)]}
    state = await started([ROW], state, run_context(plan=False))
    sent, _ = await turn([ROW], state, run_context())
    assert sent is not None
    assert sent[0].content == "hi"


async def test_an_event_tells_each_change_of_the_plan() -> None:
    run = run_context()
    await turn([ROW], {"messages": [user("do it")], "todos": OPEN[:1]}, run)
    assert await events(run, "todos") == [], "what an earlier run left is no change"
    await turn([ROW], planned(todos=OPEN), run)
    await turn([ROW], planned(todos=OPEN), run, calls("a"))
    await turn([ROW], planned(todos=DONE), run)
    assert await events(run, "todos") == [{"todos": OPEN}, {"todos": DONE}]


async def test_after_a_resume_the_plan_is_told_again() -> None:
    run = run_context(resumed=True)
    await turn([ROW], planned(todos=OPEN), run, calls("a"))
    assert await events(run, "todos") == [{"todos": OPEN}]


async def test_a_plan_far_back_is_shown_at_the_end() -> None:
    work = [m for n in range(FAR // 2) for m in (calls("a", id=f"a{n}"), result("a", id=f"r{n}"))]
    state = planned(todos=OPEN)
    near, _ = await turn([ROW], state, run_context(), calls("a"))
    assert near is state["messages"]
    state["messages"] = [*state["messages"], *work]
    sent, _ = await turn([ROW], state, run_context(), calls("a"))
    assert sent is not None
    assert sent[:-1] == state["messages"], "the prefix keeps its bytes"
    assert sent[-1].content == (
        "<system-reminder>\nYour plan so far:\n- completed: read \u2039memory\u203a\n"
        "- in_progress: write it\n</system-reminder>"
    )
    finished, _ = await turn([ROW], {**state, "todos": DONE}, run_context())
    assert finished is state["messages"]


async def test_an_end_with_open_entries_is_asked_about_once() -> None:
    run = run_context()
    state = planned(todos=OPEN)
    _, reply = await turn([ROW], state, run)
    assert reply.jump == "model"
    [reminder] = reply.update["messages"]
    assert isinstance(reminder, HumanMessage)
    assert reminder.additional_kwargs[REMINDER]
    assert "write it" in reminder.text
    assert "read" not in reminder.text, "done entries are not asked about"
    state["messages"] = [*state["messages"], reply.message, reminder]
    _, again = await turn([ROW], state, run)
    assert again.jump is None


async def test_no_question_while_work_goes_on_or_about_an_older_plan() -> None:
    _, reply = await turn([ROW], planned(todos=OPEN), run_context(), calls("a"))
    assert reply.jump is None
    old = planned(todos=OPEN)
    old["messages"] = [
        *old["messages"],
        AIMessage("later", id="a"),
        user("something else", id="u2"),
    ]
    _, reply = await turn([ROW], old, run_context())
    assert reply.jump is None
    _, reply = await turn([ROW], planned(todos=DONE), run_context())
    assert reply.jump is None
    _, reply = await turn([ROW], planned(todos=OPEN), run_context(turn=9, max_turns=10))
    assert reply.jump is None, "there is no turn left to answer in"
