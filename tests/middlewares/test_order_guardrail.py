"""Swap test of row 18."""

from __future__ import annotations

from typing import Any

from deerflow.agent.calls import CallBook
from deerflow.config.access import GuardrailsConfig
from deerflow.guardrails.inmemory import InMemoryGuardrails
from deerflow.guardrails.protocol import Verdict
from deerflow.middlewares.guardrail import GuardrailMiddleware
from deerflow.middlewares.sandbox_audit import SandboxAuditMiddleware
from fakes.rows import call_tool, events, request, run_context, tool


async def test_guardrail_beside_sandbox_audit() -> None:
    async def effect(**_: Any) -> str:
        raise AssertionError("a denied call must not run")

    logged: list[int] = []
    policy = InMemoryGuardrails(default=Verdict("deny", "no"))
    rows = [GuardrailMiddleware(GuardrailsConfig(), policy), SandboxAuditMiddleware()]
    for order in (rows, rows[::-1]):
        run = run_context()
        run.scratch[CallBook] = CallBook()
        call = request(tool("bash", sandbox=True), run, command="ls")
        assert (await call_tool(order, run, call, effect)).status == "error"
        logged.append(len(await events(run, "audit")))
    assert logged == [0, 1], "the other way round a denied call is on record as done"
