"""The exam in CrewAI: a Flow whose router sends an answer back; each step is a crew of one task.

Tasks have Pydantic outputs; what a crew says is also held against the shared strict reader, for
CrewAI asks the model to convert a reply that does not fit.
"""

from __future__ import annotations

from typing import Any

import proctor
from crewai import LLM, Agent, Crew, Task
from crewai.flow.flow import Flow, listen, or_, router, start
from pydantic import BaseModel, StrictBool


class Resolution(BaseModel):
    """What the resolver says."""

    reasoning: str
    response: str
    final: str = ""
    confidence: float = 0.0


class Verdict(BaseModel):
    """What the validator says."""

    checked_answer: str
    accepted: StrictBool
    feedback: str


class Round(BaseModel):
    """The state of a flow."""

    settled: bool = False


class Examination(Flow[Round]):
    """One question: resolve, validate, and again while the router says so."""

    sheet: proctor.Sheet
    llm: Any

    @start()
    def begin(self) -> str:
        """Hand out the question."""
        return self.sheet.question.text

    @listen(or_(begin, "revise"))
    async def resolve(self) -> None:
        """Let a crew of the resolver answer."""
        agent = Agent(
            role="Resolver",
            goal="Answer one exam question.",
            backstory=self.sheet.question.resolver,
            llm=self.llm,
        )
        text = await self.crew(agent, self.sheet.resolver_prompt(), Resolution)
        self.sheet.resolved(proctor.resolution_in(text))

    @router(resolve)
    async def validate_answer(self) -> str:
        """Let a crew of the validator look at it."""
        agent = Agent(
            role="Validator",
            goal="Accept a right answer, send back a wrong one.",
            backstory=self.sheet.question.validator,
            llm=self.llm,
        )
        text = await self.crew(agent, self.sheet.validator_prompt(), Verdict)
        self.sheet.judged(proctor.verdict_in(text))
        self.state.settled = self.sheet.settled
        return "done" if self.state.settled else "revise"

    async def crew(self, agent: Agent, prompt: str, output: type[BaseModel]) -> str:
        """What a crew of one agent with one task says."""
        task = Task(
            description=prompt,
            expected_output="One JSON object as your instructions describe it.",
            agent=agent,
            output_pydantic=output,
        )
        before = self.llm.get_token_usage_summary()
        try:
            said = await Crew(agents=[agent], tasks=[task], verbose=False).akickoff()
        finally:
            used = self.llm.get_token_usage_summary()
            self.sheet.spend(
                used.prompt_tokens - before.prompt_tokens,
                used.completion_tokens - before.completion_tokens,
                calls=used.successful_requests - before.successful_requests,
            )
        return said.raw


def build(model: str, base_url: str) -> proctor.Solve:
    """A flow for each question."""
    free: list[
        LLM
    ] = []  # a model counts its use from its beginning, so none is shared by two at once

    async def solve(sheet: proctor.Sheet) -> None:
        llm = free.pop() if free else LLM(model=f"openai/{model}", base_url=base_url)
        try:
            await Examination(sheet=sheet, llm=llm, suppress_flow_events=True).kickoff_async()
        finally:
            free.append(llm)

    return solve


if __name__ == "__main__":
    proctor.main("crewai", ["crewai"], build)
