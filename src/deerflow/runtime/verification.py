"""Verifies a run's answer: an examiner who sees the task alone derives one, and the two compare.

The double loop of `deerflow.verify`, with the lead for its resolver: what is said against an answer
goes back to it as a hidden continuation of the same run. All of it is entered again after a kill;
the lead's answers are then in its history, and the examiner's in the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import REMINDER
from deerflow.agent.record import shown, visible_text
from deerflow.errors import ModelError
from deerflow.runtime.outcome import answer_of, last_turn, outcome_of
from deerflow.runtime.pursuit import is_aside
from deerflow.subagents.batch_job import Executor
from deerflow.verify import prompts
from deerflow.verify.children import ChildAsker, resolution
from deerflow.verify.loop import Loop
from deerflow.verify.messages import Problem, QuestionStatus
from deerflow.verify.policy import Policy
from deerflow.verify.protocol import Ask, Reply
from deerflow.verify.tool import feedback_of

ROUND = "deerflow_verification_round"
"""additional_kwargs of the message that sends the lead back: number of the answer it asks for."""
EVENT = "verification"
SHORT = 80
"""Characters up to which an answer of one line is taken for a bare result."""

POLICY = Policy(code_check=False, adjudicate=False)
"""At most three answers. Whatever is accepted is then the lead's newest: nobody else's answer can
take the place of what stands in its conversation."""

_EXTRACT = (
    "Copy the result out of an answer: the shortest piece of it, word for word, that answers the "
    f"question. {prompts.MATERIAL} Reply with that piece and nothing else; with - if there is no "
    "short result."
)

State = tuple[dict[str, Any], bool]
"""Values of the lead's thread, and whether its run waits for a human."""
GoOn = Callable[[dict[str, Any]], Awaitable[State]]


class Verification:
    """One run's verification.

    Args:
        run: the lead's context.
        executor: runs the examiner as a child.
        go_on: sends the lead on with an input; gives the state that it comes to.
    """

    def __init__(self, run: RunContext, executor: Executor, go_on: GoOn) -> None:
        self._run = run
        self._children = ChildAsker(executor, run, name=f"verify-{run.run_id[:12]}")
        self._go_on = go_on
        self._values: dict[str, Any] = {}
        self._paused = False

    async def of(self, values: dict[str, Any]) -> tuple[State, dict[str, Any] | None]:
        """Verify what the run has come to.

        Args:
            values: the state at its end.

        Returns:
            The state that it has come to now, and how the verification ended for the outcome and
            the log: {state, accepted, attempts, validator_answer, feedback}; None when there is
            nothing to verify, or the lead now waits for a human.
        """
        self._values = values
        task = self._task()
        if not task or not self._answered():
            return (values, False), None
        seed = Random(self._run.run_id)  # noqa: S311  # an order, nothing secret
        status = await Loop(self, POLICY, shuffle=seed).solve(Problem(self._run.run_id, task))
        if self._paused:
            return (self._values, True), None
        told = _told(status)
        if EVENT not in self._run.completed:
            self._run.completed.add(EVENT)
            self._run.emit(EVENT, told)
        return (self._values, False), told

    async def ask(self, ask: Ask) -> Reply:
        """The lead's answer number `attempt`, or what another role says. See `Asker`."""
        if ask.role != "resolver":
            return await self._children.ask(ask)
        if len(self._legs()) < ask.attempt:
            await self._sent_back(ask)
        answer = answer_of(self._legs()[ask.attempt - 1])
        return Reply(resolution(answer, await self._result(ask, answer)))

    async def _sent_back(self, ask: Ask) -> None:
        """Send the lead on with what was said against its answer.

        Raises:
            ModelError: it came to no further answer.
        """
        text = (
            "Somebody who answered the task independently does not agree with your answer. What "
            "they say follows; they may be wrong too. Check it, correct what is wrong, and give "
            f"your whole answer again.\n\n{prompts.framed(ask.feedback, 'feedback')}"
        )
        message = HumanMessage(
            text,
            id=f"verify-{self._run.run_id}-{ask.attempt}",
            additional_kwargs={ROUND: ask.attempt, REMINDER: True, "hide_from_ui": True},
        )
        if message.id not in self._run.logged:
            self._run.emit("message", {"message": shown(message)})
        self._values, self._paused = await self._go_on({"messages": [message]})
        if self._paused or not self._answered():
            raise ModelError("The lead came to no further answer.", model=self._run.model_name)

    async def _result(self, ask: Ask, answer: str) -> str:
        """The bare result in an answer, "" for all of it."""
        if len(answer) <= SHORT and "\n" not in answer:
            return ""
        given = prompts.framed(answer, "answer")
        prompt = f"{prompts.question(ask.problem)}\n\n# Answer\n\n{given}"
        asked = Ask(ask.problem, "resolver", "self_check", ask.attempt, _EXTRACT, prompt)
        try:
            found = (await self._children.ask(asked)).text.strip()
        except ModelError:  # the whole answer is compared then
            return ""
        return "" if found == "-" else found

    # ---- the lead's conversation ----

    def _turn(self) -> list[AnyMessage]:
        return last_turn(self._values.get("messages", ()), self._run.input_id)

    def _legs(self) -> list[Sequence[AnyMessage]]:
        """The messages of each answer: what follows the task, and each time it was sent back."""
        legs: list[list[AnyMessage]] = [[]]
        for message in self._turn():
            if ROUND in message.additional_kwargs:
                legs.append([])
            legs[-1].append(message)
        return [*legs]

    def _answered(self) -> bool:
        leg = self._legs()[-1]
        if not leg or is_aside(leg[-1], self._run):
            return False
        return outcome_of(leg, self._run.folders.outputs, ()).kind == "answered"

    def _task(self) -> str:
        for message in reversed(self._values.get("messages", ())):
            if message.id == self._run.input_id:
                return visible_text(message)
        return ""


def _told(status: QuestionStatus) -> dict[str, Any]:
    told: dict[str, Any] = {
        "state": status.state,
        "accepted": status.accepted,
        "attempts": status.attempts,
        "validator_answer": status.validator_answer,
        "feedback": feedback_of(status),
    }
    error = status.raw.get("error")
    return told if error is None else {**told, "error": error["message"]}


def closing_line(told: dict[str, Any]) -> str:
    """One line about a verification, for the end of a run."""
    if told["accepted"]:
        return "Verified: an independent examiner came to the same result."
    words = {
        "exhausted": "an independent examiner came to another result",
        "validator_error": "the examiner gave no readable verdict",
        "budget_exceeded": "the budget had no room for it",
    }
    why = words.get(str(told["state"]), "the lead gave no further answer")
    own = " ".join(str(told["validator_answer"] or "").split())
    own = own if len(own) <= 80 else own[:79] + "…"
    return f"Not verified: {why}." + (f" Its answer: {own}" if own else "")
