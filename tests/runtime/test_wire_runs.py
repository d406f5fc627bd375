"""The fields of a client's run, made into our request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError
from deerflow.runtime.request import RunRequest
from deerflow.runtime.wire_runs import ATTACHED, ClientRun, request_of
from fakes.opened import opened_runtime

HI = {"messages": [{"role": "user", "content": "hi"}]}


def made(whole: AppConfig | None = None, **fields: Any) -> RunRequest:
    whole = whole or AppConfig.model_validate({"max_turns": 100})
    run = ClientRun(**{"input": HI, **fields})
    return request_of(run, user_id="anna", thread_id="t", config=whole)


def test_what_the_web_client_sends() -> None:
    content = [{"type": "text", "text": "hi"}]
    request = made(
        input={"messages": [{"type": "human", "content": content, "additional_kwargs": {}}]},
        config={"recursion_limit": 1000},
        context={
            "model_name": "stub",
            "mode": "ultra",
            "reasoning_effort": "high",
            "thinking_enabled": True,
            "is_plan_mode": True,
            "subagent_enabled": True,
            "thread_id": "t",
        },
        assistant_id="lead_agent",
    )
    assert (request.task, request.model, request.plan, request.delegate) == (
        "hi", "stub", True, True,
    )  # fmt: skip
    assert (request.max_turns, request.agent_name) == (None, "")
    assert request.message == {"type": "human", "content": content, "additional_kwargs": {}}
    assert request.context["reasoning_effort"] == "high"
    assert "thread_id" not in request.context
    assert RunRequest.from_dict(request.to_dict()) == request


def test_secrets_are_never_kept() -> None:
    request = made(context={"secrets": {"K": "hunter2"}, "github_token": "hunter2", "x": "hunter2"})
    assert "hunter2" not in str(request.to_dict())


def test_modes_stand_for_settings_that_count_less_than_named_ones() -> None:
    assert made(context={"mode": "flash"}).context["thinking_enabled"] is False
    assert made(context={"mode": "pro"}).plan is True
    assert made(context={"mode": "pro", "is_plan_mode": False}).plan is False
    assert made(context={"mode": "ultra"}).context["reasoning_effort"] == "high"


def test_the_older_place_counts_less() -> None:
    older = {"configurable": {"model_name": "a", "is_plan_mode": True, "thread_id": "x"}}
    request = made(config=older, context={"model_name": "b"})
    assert (request.model, request.plan, request.thread_id) == ("b", True, "t")


def test_agents_are_named_by_assistant_or_context() -> None:
    assert made(assistant_id="helper").agent_name == "helper"
    assert made(context={"agent_name": "helper"}).agent_name == "helper"
    assert made(assistant_id="lead_agent", context={"agent_name": "helper"}).agent_name == "helper"
    assert made(context={"agent_name": "new", "is_bootstrap": True}).agent_name == ""


def test_several_messages_and_attachments() -> None:
    given = {"messages": [{"role": "ai", "content": "before"}, {"role": "user", "content": "now"}]}
    request = made(input=given)
    assert (request.task, [m["content"] for m in request.earlier]) == ("now", ["before"])
    image = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    assert made(input={"messages": [{"role": "user", "content": image}]}).task == ATTACHED
    files = {"content": "", "additional_kwargs": {"files": [{"filename": "a"}]}}
    assert made(input={"messages": [files]}).task == ATTACHED


def test_checkpoints_and_limits() -> None:
    assert made(checkpoint_id="c").checkpoint_id == "c"
    assert made(checkpoint={"checkpoint_ns": "", "checkpoint_id": "c"}).checkpoint_id == "c"
    assert made(config={"recursion_limit": 25}).max_turns == 25
    assert made(config={"recursion_limit": -3}).max_turns == 1
    assert made(config={"recursion_limit": 10_000}).max_turns is None


def test_children_are_had_only_where_they_are_configured() -> None:
    off = AppConfig.model_validate({"subagents": {"enabled": False}})
    assert made(off, context={"subagent_enabled": True}).delegate is False
    assert made(context={"subagent_enabled": False}).delegate is False
    assert made().delegate is None


def test_a_resume_needs_no_input() -> None:
    run = ClientRun(command={"resume": {"approved": True}})
    assert (run.resumes, run.answer) == (True, {"approved": True})
    request = request_of(run, user_id="anna", thread_id="t", config=AppConfig())
    assert (request.task, request.message) == ("", None)
    assert not ClientRun(command={"goto": "x"}).resumes


BAD: list[dict[str, Any]] = [
    {"input": None},
    {"input": {}},
    {"input": {"messages": []}},
    {"input": {"messages": [{"role": "ai", "content": "x"}]}},
    {"context": {"mode": "fast"}},
    {"context": {"thinking_enabled": "yes"}},
    {"context": {"reasoning_effort": "endless"}},
    {"context": {"model_name": 5}},
    {"context": {"max_concurrent_subagents": 0}},
    {"config": {"recursion_limit": "many"}},
    {"config": {"configurable": []}},
    {"checkpoint_id": 5},
]


@pytest.mark.parametrize("fields", BAD, ids=str)
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        made(**fields)


async def test_what_a_client_sends_reaches_state_and_log(tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    ]
    extra = {"hide_from_ui": True, "files": [{"filename": "a", "path": "/mnt/x", "size": 1}]}
    given = {
        "messages": [
            {"role": "assistant", "content": "before"},
            {"role": "user", "content": parts, "additional_kwargs": extra, "id": "m1"},
        ]
    }
    async with opened_runtime([{"text": "ok"}], tmp_path) as here:
        run = ClientRun(input=given)
        request = request_of(run, user_id="anna", thread_id="t", config=here.parts.config)
        submitted = await here.runtime.submissions.submit(request)
        await here.runtime.submissions.wait(submitted.run.thread_key, submitted.run.run_id)
        state = await here.runtime.histories.state(await here.thread())
        assert state is not None
        before, asked, _ = state.values["messages"]
        assert (before.type, before.content) == ("ai", "before")
        assert asked.content == parts
        kept = {k: v for k, v in asked.additional_kwargs.items() if not k.startswith("deerflow_")}
        assert kept == {**extra, "client_id": "m1"}
        logged = [e.payload["message"] for e in await here.log() if e.type == "message"]
        assert logged[1]["additional_kwargs"]["hide_from_ui"] is True
        assert logged[1]["additional_kwargs"]["client_id"] == "m1"
