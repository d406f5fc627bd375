"""Lets any LangChain chat class report its deltas, as `models.protocol` promises of all."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk
from langchain_core.tracers._streaming import (
    _StreamingCallbackHandler as StreamingHandler,  # pyright: ignore[reportPrivateUsage]
)

from deerflow.models.private import REASONING
from deerflow.models.protocol import delta_sink


class DeltaReporter(AsyncCallbackHandler, StreamingHandler[Any]):
    """Hands each streamed piece to the sink of the context.

    Being a streaming handler it also makes `ainvoke` stream, so that the first-byte and idle limits
    measure something in classes that know nothing of our sink (`langchain_openai:ChatOpenAI` …).
    """

    def tap_output_aiter(self, run_id: Any, output: Any) -> Any:
        """Nothing to tap: the pieces come by `on_llm_new_token`."""
        del run_id
        return output

    def tap_output_iter(self, run_id: Any, output: Any) -> Any:
        """Nothing to tap: the pieces come by `on_llm_new_token`."""
        del run_id
        return output

    async def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        **kwargs: Any,
    ) -> None:
        """Report one piece; an empty one still is a sign of life."""
        del kwargs
        sink = delta_sink.get()
        if sink is None:
            return
        message = chunk.message if isinstance(chunk, ChatGenerationChunk) else None
        if not isinstance(message, AIMessageChunk):
            if isinstance(token, str):
                sink("text", token)
            return
        reasoning = _reasoning(message)
        if reasoning:
            sink("reasoning", reasoning)
        if message.text:
            sink("text", message.text)
        if not reasoning and not message.text:
            sink("call", "".join(part["args"] or "" for part in message.tool_call_chunks))


def reporting(model: BaseChatModel) -> BaseChatModel:
    """The model with a DeltaReporter among its own callbacks; once is enough."""
    held = model.callbacks
    if held is None or isinstance(held, list):
        own = list(held or ())
        if not any(isinstance(each, DeltaReporter) for each in own):
            model.callbacks = [*own, DeltaReporter()]
    else:
        held.add_handler(DeltaReporter(), inherit=False)
    return model


def _reasoning(message: AIMessageChunk) -> str:
    said = message.additional_kwargs.get(REASONING)
    if isinstance(said, str) and said:
        return said
    if isinstance(message.content, str):
        return ""
    parts = [cast("dict[str, Any]", part) for part in message.content if isinstance(part, dict)]
    return "".join(str(part.get("thinking") or part.get("reasoning") or "") for part in parts)
