"""The exam in Google ADK: a LoopAgent of resolver, validator and a referee that ends the loop.

Each question is a session of its own. The agents have output schemas and leave what they say in
the session's state; callbacks give each exactly its own prompt, so that none sees the other's turn.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Callable

import proctor
from google.adk.agents import BaseAgent, InvocationContext, LlmAgent, LoopAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events import Event, EventActions
from google.adk.models import LlmRequest, LlmResponse
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from litellm import ModelResponse  # noqa: F401  (ADK loads it at the first call, among the questions)
from pydantic import BaseModel, StrictBool

warnings.simplefilter("ignore")  # LoopAgent is to be replaced one day, and says so each time
APP, USER = "exam", "candidate"
SHEETS: dict[str, proctor.Sheet] = {}
"""By session; a session's own state holds only what JSON can say."""


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


class Referee(BaseAgent):
    """Takes the verdict, and leaves the loop when the question is settled."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        sheet = SHEETS[ctx.session.id]
        sheet.judged(proctor.verdict_of(ctx.session.state["verdict"]))
        yield Event(author=self.name, actions=EventActions(escalate=sheet.settled))


def message(text: str) -> types.Content:
    """A user's message."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def sheet_of(context: ReadonlyContext) -> proctor.Sheet:
    """The sheet of a callback's session."""
    return SHEETS[context.session.id]


def asking(prompt: Callable[[proctor.Sheet], str]) -> Callable[..., None]:
    """A callback that makes a prompt the only message of a request."""

    def before_model(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        llm_request.contents = [message(prompt(sheet_of(callback_context)))]

    return before_model


def spend(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
    """Count what a reply has used."""
    used = llm_response.usage_metadata
    sent = (used and used.prompt_token_count) or 0
    sheet_of(callback_context).spend(sent, (used and used.candidates_token_count) or 0)


def resolved(callback_context: CallbackContext) -> None:
    """Take the resolver's answer from the session's state."""
    answer = proctor.resolution_of(callback_context.state["resolution"])
    sheet_of(callback_context).resolved(answer)


def build(model: str, base_url: str) -> proctor.Solve:
    """The loop agent with a runner."""
    chat = LiteLlm(model=f"openai/{model}", api_base=base_url)
    resolver = LlmAgent(
        name="resolver",
        model=chat,
        instruction=lambda context: sheet_of(context).question.resolver,
        include_contents="none",
        output_schema=Resolution,
        output_key="resolution",
        before_model_callback=asking(proctor.Sheet.resolver_prompt),
        after_model_callback=spend,
        after_agent_callback=resolved,
    )
    validator = LlmAgent(
        name="validator",
        model=chat,
        instruction=lambda context: sheet_of(context).question.validator,
        include_contents="none",
        output_schema=Verdict,
        output_key="verdict",
        before_model_callback=asking(proctor.Sheet.validator_prompt),
        after_model_callback=spend,
    )
    loop = LoopAgent(
        name="exam",
        sub_agents=[resolver, validator, Referee(name="referee")],
        max_iterations=proctor.MAX_ATTEMPTS,
    )
    sessions = InMemorySessionService()
    runner = Runner(agent=loop, app_name=APP, session_service=sessions)

    async def solve(sheet: proctor.Sheet) -> None:
        session = await sessions.create_session(app_name=APP, user_id=USER)
        SHEETS[session.id] = sheet
        new = message(sheet.question.text)
        async for event in runner.run_async(user_id=USER, session_id=session.id, new_message=new):
            if event.error_code:
                raise proctor.UnreadableError(f"{event.error_code}: {event.error_message}")

    return solve


if __name__ == "__main__":
    proctor.main("google-adk", ["google-adk", "litellm"], build)
