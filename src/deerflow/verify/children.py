"""Asks roles as isolated children of a lead's run: each sees its own prompt and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from langgraph.errors import GraphInterrupt

from deerflow.agent.context import RunContext
from deerflow.errors import LimitError, ModelError
from deerflow.models.usage import Tokens, UsageMeter
from deerflow.subagents.answers import tell
from deerflow.subagents.batch_job import Executor
from deerflow.subagents.roster import SubagentSpec
from deerflow.subagents.runner import ChildResult
from deerflow.verify.protocol import Ask, Asker, Reply, RoleName

TOOLS = ("calculator",)
"""What a role may use: nothing that shows it the lead's work."""
MOST_TURNS = 8
SECONDS = 300.0
"""A role answers one question; who takes longer is not waited for."""

_BUDGETS = ("token_budget", "subagents.token_budget")


class ChildAsker:
    """Asks each role as a child of its own.

    The children are not nested in the caller's graph: after a kill they begin again and what was
    paid comes from the journal, under names that are the same whenever an ask is entered.

    Args:
        executor: runs children.
        run: the lead's context.
        name: begins the names of the children; unique per verification and the same after a kill.
        models: configured names by role; the lead's where there is none.
        tool_call_id: call of the lead that they belong to, "" for none.
    """

    def __init__(
        self,
        executor: Executor,
        run: RunContext,
        *,
        name: str,
        models: Mapping[RoleName, str] | None = None,
        tool_call_id: str = "",
    ) -> None:
        self._executor = executor
        self._run = run
        self._name = name
        self._models = models or {}
        self._tool_call_id = tool_call_id
        self.meter = UsageMeter()
        """What all children used."""

    async def ask(self, ask: Ask) -> Reply:
        """See `Asker`."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        spec = SubagentSpec(
            ask.role,
            prompt=ask.system,
            tools=TOOLS,
            skills=(),
            model=self._models.get(ask.role),
            max_turns=MOST_TURNS,
            timeout_seconds=SECONDS,
        )
        name = f"{self._name}.{ask.role}-{ask.step}-{ask.attempt}-{ask.number}"
        self._begins(spec, name, ask)
        try:
            result = await self._executor.run(spec, ask.prompt, self._run, name=name)
        except GraphInterrupt:
            raise ModelError(
                f"The {ask.role} waits for a human, and a verification does not.",
                model=spec.model or self._run.model_name,
            ) from None
        tell(self._run, name, result)
        self.meter.merge(UsageMeter.from_dict(result.usage))
        text = _text(result, ask.role, spec.model or self._run.model_name)
        tokens = Tokens.from_dict(result.usage.get("total", {}))
        return Reply(text, tokens, round((loop.time() - began) * 1000))

    def _begins(self, spec: SubagentSpec, name: str, ask: Ask) -> None:
        """Log the start, once: a child that begins again after a kill has begun already."""
        run = self._run
        if name in run.tasks:
            return
        run.tasks[name] = "task_started"
        run.emit(
            "task_started",
            {
                "task_id": name,
                "tool_call_id": self._tool_call_id,
                "description": f"{ask.role}: {ask.step}",
                "subagent_type": spec.name,
                "model": spec.model or run.model_name,
            },
        )


class Given:
    """Takes what is to be verified for the resolver's answer, and asks the other roles."""

    def __init__(self, answer: str, asker: Asker) -> None:
        self._answer = answer
        self._asker = asker

    async def ask(self, ask: Ask) -> Reply:
        """See `Asker`."""
        if ask.role == "resolver":
            return Reply(resolution(self._answer))
        return await self._asker.ask(ask)


def resolution(response: str, final: str = "") -> str:
    """A resolver's reply that is read as exactly this answer."""
    return json.dumps({"response": response, "final": final}, ensure_ascii=False)


def _text(result: ChildResult, role: RoleName, model: str) -> str:
    """The child's words.

    Raises:
        LimitError: a budget stopped it.
        ModelError: it failed, or another limit stopped it.
    """
    if result.status == "completed" and not result.stop_reason:
        return result.text
    error = result.error or {}
    why = error.get("message") or f"The {role} was stopped by {result.stop_reason}."
    if result.stop_reason.startswith(_BUDGETS) or error.get("code") == LimitError.code:
        rule = result.stop_reason or str(error.get("code"))
        raise LimitError(str(why), rule=rule, used=0, limit=0)
    raise ModelError(str(why), model=model)
