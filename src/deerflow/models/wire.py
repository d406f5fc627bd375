"""`WireModel`: any LangChain chat model, made legal on the way in and storable on the way out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    convert_to_messages,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBinding
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from deerflow.errors import ModelUnavailableError, UsageError
from deerflow.models.async_only import AsyncChatModel
from deerflow.models.failures import Translated
from deerflow.models.private import REASONING
from deerflow.models.protocol import DeltaSink, ModelSpec, delta_sink
from deerflow.models.quirks import absorb, legalise
from deerflow.models.thinktags import Piece, ThinkSplitter
from deerflow.models.toolsets import BoundTools

LOCAL_SETTINGS = frozenset({"deliverables"})
"""Call settings that the embedded model alone understands; an endpoint would refuse them."""

ToolLike = dict[str, Any] | type | Callable[..., Any] | BaseTool


class Exchange(Runnable[LanguageModelInput, AIMessage]):
    """One way to ask a model, with its tools and settings bound: legalise, ask, absorb.

    Args:
        target: a chat model, or one with tools bound.
        spec: facts of the model.
        native: the model reports deltas to the sink and raises our errors by itself.
    """

    def __init__(self, target: Runnable[Any, Any], spec: ModelSpec, *, native: bool) -> None:
        self.spec = spec
        self._native = native
        self._target = target
        self._options: dict[str, Any] = {}
        if (
            isinstance(target, RunnableBinding)
            and not target.config
            and not target.config_factories
        ):
            # Calling through the binding merges configurations twice per call.
            self._target = target.bound
            self._options = dict(target.kwargs)

    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        """Not offered. Raises UsageError."""
        raise UsageError("Models are async only.", cure="Use ainvoke.")

    async def ainvoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        """One AI message; deltas go to `models.protocol.delta_sink`. Raises ModelError."""
        messages = legalise(as_messages(input), self.spec)
        options = {**self._options, **kwargs}
        if self._native:
            return absorb(await self._target.ainvoke(messages, config, **options), self.spec)
        with Translated(self.spec.name):
            reply = await self._gather(messages, config, options)
        return absorb(reply, self.spec)

    async def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessageChunk]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The model's chunks as they come. Raises ModelError."""
        messages = legalise(as_messages(input), self.spec)
        with Translated(self.spec.name):
            splitter = None if self._native else ThinkSplitter()
            async for chunk in self._target.astream(
                messages, config, **{**self._options, **kwargs}
            ):
                yield chunk if splitter is None else _split(chunk, splitter)
            if splitter is not None and (rest := splitter.close()):
                yield _chunk_of(rest)

    async def _gather(
        self, messages: list[BaseMessage], config: RunnableConfig | None, options: dict[str, Any]
    ) -> AIMessage:
        """Ask a foreign model by its stream and report its deltas."""
        chunks: list[AIMessageChunk] = []
        deltas = _Deltas(delta_sink.get())
        async for chunk in self._target.astream(messages, config, **options):
            if isinstance(chunk, AIMessageChunk):
                deltas.hear(chunk)
                chunks.append(chunk)
            elif isinstance(chunk, AIMessage):  # models without a stream of their own
                deltas.hear(chunk)
                deltas.close()
                return chunk
        deltas.close()
        if not chunks:
            raise ModelUnavailableError(
                f"Model {self.spec.name!r}: the endpoint sent nothing.", model=self.spec.name
            )
        return add_ai_message_chunks(chunks[0], *chunks[1:])


class WireModel(AsyncChatModel):
    """A configured model as the kernel sees it; `Catalog.get` returns it.

    Attributes:
        inner: the LangChain chat model that talks to the provider.
        spec: its facts.
    """

    inner: BaseChatModel
    spec: ModelSpec

    _plain: Exchange | None = PrivateAttr(default=None)
    _bound: BoundTools[Exchange] = PrivateAttr(default_factory=BoundTools[Exchange])

    def model_post_init(self, context: Any, /) -> None:
        """Take over the inner model's profile."""
        super().model_post_init(context)
        if self.profile is None:
            self.profile = self.inner.profile
        self._plain = self._exchange(self.inner)

    @property
    def _llm_type(self) -> str:
        return f"deerflow-wire-{self.inner._llm_type}"  # pyright: ignore[reportPrivateUsage]

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.spec.model, "provider": self.spec.provider}

    def _exchange(self, target: Runnable[Any, Any]) -> Exchange:
        return Exchange(target, self.spec, native=_is_ours(self.inner))

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools; the same tool objects and settings give the same object.

        A model whose spec says that it cannot call tools is asked without them.
        """
        settings = self._settings(kwargs)
        if tool_choice is not None:
            settings["tool_choice"] = tool_choice

        def make() -> Exchange:
            if not self.spec.tools:
                return self._exchange(self.inner)
            return self._exchange(self.inner.bind_tools(tools, **settings))

        return self._bound.get(tools, settings, make)

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """One AI message. Raises ModelError."""
        return await self._exchange_now.ainvoke(input, config, **self._settings(kwargs, stop))

    async def astream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """The model's chunks. Raises ModelError."""
        async for chunk in self._exchange_now.astream(
            input, config, **self._settings(kwargs, stop)
        ):
            yield chunk

    def _settings(self, given: dict[str, Any], stop: list[str] | None = None) -> dict[str, Any]:
        """Settings for the inner model; those of the embedded one alone stay here."""
        ours = self.inner._llm_type == "local"  # pyright: ignore[reportPrivateUsage]
        kept = {key: value for key, value in given.items() if ours or key not in LOCAL_SETTINGS}
        return kept if stop is None else {**kept, "stop": stop}

    @property
    def _exchange_now(self) -> Exchange:
        return self._plain or self._exchange(self.inner)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = await self._exchange_now.ainvoke(messages, **self._settings(kwargs, stop))
        return ChatResult(generations=[ChatGeneration(message=message)])


class _Deltas:
    """Tells the sink what a foreign model's chunks make visible."""

    def __init__(self, sink: DeltaSink | None) -> None:
        self._sink = sink
        self._splitter = ThinkSplitter()

    def hear(self, chunk: AIMessage) -> None:
        if self._sink is None:
            return
        for thinking in _thinking(chunk):
            self._sink("reasoning", thinking)
        for kind, text in self._splitter.feed(chunk.text):
            self._sink(kind, text)
        if isinstance(chunk, AIMessageChunk):
            for call in chunk.tool_call_chunks:
                self._sink("call", call["args"] or "")

    def close(self) -> None:
        if self._sink is not None:
            for kind, text in self._splitter.close():
                self._sink(kind, text)


def as_messages(input: LanguageModelInput) -> list[BaseMessage]:
    """Any model input as messages; a list of messages stays the same object."""
    if isinstance(input, list) and all(isinstance(item, BaseMessage) for item in input):
        return cast("list[BaseMessage]", input)
    if isinstance(input, str):
        return [HumanMessage(content=input)]
    if isinstance(input, PromptValue):
        return input.to_messages()
    return convert_to_messages(input)


def _thinking(chunk: AIMessage) -> list[str]:
    found = [chunk.additional_kwargs.get(REASONING)]
    if isinstance(chunk.content, list):
        blocks = [block for block in chunk.content if isinstance(block, dict)]
        found += [block.get("thinking") or block.get("reasoning") for block in blocks]
    return [text for text in found if isinstance(text, str) and text]


def _split(chunk: AIMessageChunk, splitter: ThinkSplitter) -> AIMessageChunk:
    """The chunk with think tags of a text content taken out."""
    if not isinstance(chunk.content, str) or not chunk.content:
        return chunk
    parted = _chunk_of(splitter.feed(chunk.content))
    extra = {**chunk.additional_kwargs, **parted.additional_kwargs}
    return chunk.model_copy(update={"content": parted.content, "additional_kwargs": extra})


def _chunk_of(pieces: Sequence[Piece]) -> AIMessageChunk:
    thinking = "".join(text for kind, text in pieces if kind == "reasoning")
    return AIMessageChunk(
        content="".join(text for kind, text in pieces if kind == "text"),
        additional_kwargs={REASONING: thinking} if thinking else {},
    )


def _is_ours(model: BaseChatModel) -> bool:
    """Whether the model is one of this package, which report deltas and raise our errors."""
    return any(cls.__module__.startswith("deerflow.models.") for cls in type(model).__mro__)
