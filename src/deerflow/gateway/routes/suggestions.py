"""Follow-up questions, and drafts in better words: short questions to a model beside runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from deerflow.errors import ConfigError, ConflictError, ModelTimeoutError, UsageError
from deerflow.gateway.deps import Caller, Gateway, Open, ThreadRead, needs
from deerflow.gateway.routes.bodies import Body
from deerflow.gateway.wording import SECONDS, polish, suggest
from deerflow.memory.protocol import Ask
from deerflow.runtime.wire_messages import text_of

router = APIRouter(tags=["suggestions"])

Name = Annotated[str | None, Field(max_length=255)]


class Said(Body):
    """A message of the conversation, as the client shows it."""

    role: str = Field("user", max_length=32)
    content: str | list[Any] = ""


class SuggestionsBody(Body):
    """The end of a conversation, and how many questions are wanted."""

    messages: list[Said] = Field(max_length=1000)
    n: int = Field(3, ge=1, le=10)
    model_name: Name = None


class Suggestions(BaseModel):
    """Questions, best first."""

    suggestions: list[str]


class SuggestionsSwitch(BaseModel):
    """Whether questions are offered, and how many at most."""

    enabled: bool
    max_suggestions: int


class PolishBody(Body):
    """A draft."""

    text: str = Field(min_length=1, max_length=1_000_000)
    locale: str | None = Field(None, max_length=35, pattern=r"^[A-Za-z0-9_-]*$")
    thread_id: Name = None
    model_name: Name = None


class Polished(BaseModel):
    """The draft in other words, and whether they differ."""

    rewritten_text: str
    changed: bool


@router.get("/suggestions/config", summary="Whether follow-up questions are offered")
async def switch(gate: Open, who: Annotated[Caller, needs("account:read")]) -> SuggestionsSwitch:
    """Of the configuration."""
    config = gate.runtime.harness.loaded.config.suggestions
    return SuggestionsSwitch(enabled=config.enabled, max_suggestions=config.max_suggestions)


@router.post("/threads/{thread_id}/suggestions", summary="Follow-up questions")
async def suggestions(thread: ThreadRead, given: SuggestionsBody, gate: Open) -> Suggestions:
    """[] when they are off or the model has none; nothing of it is stored in the thread."""
    config = gate.runtime.harness.loaded.config.suggestions
    if not config.enabled:
        return Suggestions(suggestions=[])
    ask = _ask(gate, thread.user_id, given.model_name or config.model_name)
    if ask is None:
        return Suggestions(suggestions=[])
    said = [(message.role, _text(message.content)) for message in given.messages]
    return Suggestions(suggestions=await suggest(ask, said, min(given.n, config.max_suggestions)))


@router.post("/input-polish", summary="A draft in better words")
async def rewritten(
    given: PolishBody, gate: Open, who: Annotated[Caller, needs("runs:create")]
) -> Polished:
    """The draft is not sent anywhere else; 409 when this is switched off."""
    config = gate.runtime.harness.loaded.config.input_polish
    if not config.enabled:
        raise ConflictError("Polishing of drafts is off.", cure="Set input_polish.enabled.")
    if not given.text.strip() or len(given.text) > config.max_chars:
        raise UsageError(f"A draft has 1 to {config.max_chars} characters.")
    ask = _ask(gate, who.user_id, given.model_name or config.model_name)
    if ask is None:
        raise ConflictError("No model is configured.", cure="Add one to the configuration.")
    try:
        text = await polish(ask, given.text, given.locale or "")
    except TimeoutError as error:
        raise ModelTimeoutError(f"The model took longer than {SECONDS} s.") from error
    return Polished(rewritten_text=text, changed=text != given.text)


def _ask(gate: Gateway, user_id: str, name: str | None) -> Ask | None:
    """The question to a model, None when there is no model at all.

    Raises:
        NotFoundError: there is no model of this name.
    """
    harness = gate.runtime.harness
    if name is None and not harness.catalog.names():
        return None
    try:
        asks = harness.agents.asks(name or harness.catalog.default, harness.storage)
    except ConfigError:  # a run says what is wrong with it
        return None
    return asks(user_id)


def _text(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return content
    parts: list[Any] = [part for part in content if isinstance(part, str | dict)]
    return text_of(parts)
