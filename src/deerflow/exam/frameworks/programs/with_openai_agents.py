"""The exam in the OpenAI Agents SDK: two agents with output types, run in turn by the Runner.

The SDK asks for the output type as a strict JSON schema and parses the reply; what does not fit
is its ModelBehaviorError.
"""

from __future__ import annotations

import proctor
from agents import (
    Agent,
    ModelResponse,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
)
from openai import AsyncOpenAI
from pydantic import BaseModel, StrictBool


class Resolution(BaseModel):
    """What the resolver says."""

    reasoning: str
    response: str
    final: str
    confidence: float


class Verdict(BaseModel):
    """What the validator says."""

    checked_answer: str
    accepted: StrictBool
    feedback: str


Context = RunContextWrapper[proctor.Sheet]


class Counting(RunHooks[proctor.Sheet]):
    """Counts each reply before it is parsed, so that those that do not fit are counted too."""

    async def on_llm_end(
        self, context: Context, agent: Agent[proctor.Sheet], response: ModelResponse
    ) -> None:
        """Count a reply."""
        context.context.spend(response.usage.input_tokens, response.usage.output_tokens)


def build(model: str, base_url: str) -> proctor.Solve:
    """A loop of the two agents."""
    chat = OpenAIChatCompletionsModel(model, AsyncOpenAI(base_url=base_url))
    quiet = RunConfig(tracing_disabled=True)

    def resolving(context: Context, agent: Agent[proctor.Sheet]) -> str:
        return context.context.question.resolver

    def validating(context: Context, agent: Agent[proctor.Sheet]) -> str:
        return context.context.question.validator

    resolver = Agent[proctor.Sheet](
        name="Resolver", instructions=resolving, model=chat, output_type=Resolution
    )
    validator = Agent[proctor.Sheet](
        name="Validator", instructions=validating, model=chat, output_type=Verdict
    )

    async def run(agent: Agent[proctor.Sheet], prompt: str, sheet: proctor.Sheet) -> BaseModel:
        result = await Runner.run(
            agent, prompt, context=sheet, run_config=quiet, hooks=Counting(), max_turns=1
        )
        return result.final_output

    async def solve(sheet: proctor.Sheet) -> None:
        while not sheet.settled:
            answer = await run(resolver, sheet.resolver_prompt(), sheet)
            sheet.resolved(proctor.resolution_of(answer.model_dump()))
            verdict = await run(validator, sheet.validator_prompt(), sheet)
            sheet.judged(proctor.verdict_of(verdict.model_dump()))

    return solve


if __name__ == "__main__":
    proctor.main("openai-agents", ["openai-agents", "openai"], build)
