"""`OpenAIChatModel`: chat completions of OpenAI and every compatible endpoint, without an SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Self, cast

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForLLMRun,
)
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from pydantic import AliasChoices, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from deerflow.models.async_only import AsyncChatModel
from deerflow.models.listeners import nobody_listens
from deerflow.models.pool import SessionPool
from deerflow.models.private import REASONING
from deerflow.models.reply import ReplyBuilder
from deerflow.models.request import (
    Wire,
    call_options,
    encode,
    prepare_tools,
    wire_choice,
    wire_messages,
)
from deerflow.models.settle import settle
from deerflow.models.thinktags import Piece
from deerflow.models.toolsets import BoundTools
from deerflow.models.transport import Endpoint

OPENAI_URL = "https://api.openai.com/v1"
READ_SECONDS = 600.0
"""Longest silence on the wire without `timeout`; the resilience layer's limits are shorter."""
_SDK_ONLY = frozenset(
    {
        "http_async_client",
        "http_client",
        "max_retries",
        "output_version",
        "streaming_usage",
        "tiktoken_model_name",
        "use_previous_response_id",
        "use_responses_api",
    }
)
"""Keys of ChatOpenAI without a meaning here: accepted, never sent."""
_BODY = ("temperature", "top_p", "seed", "stop", "reasoning_effort", "presence_penalty")

ToolLike = Wire | type | Callable[..., Any] | BaseTool
_Bound = Runnable[LanguageModelInput, AIMessage]

_streamed: ContextVar[list[ReplyBuilder] | None] = ContextVar("deerflow_streamed", default=None)
"""Where a stream that runs inside `ainvoke` leaves its reply: LangChain's sum of the chunks mends
half-written arguments and parts malformed calls from the others."""


class OpenAIChatModel(AsyncChatModel):
    """A LangChain chat model over one shared HTTP session per event loop.

    `ainvoke` builds one AIMessage straight from the stream and hands text to
    `models.protocol.delta_sink`; with callbacks (tracing, `astream_events`) it streams true chunks.
    Constructor keys that are no field go into the request body, as `extra_body` does. Async only.

    Attributes:
        model: the endpoint's model name.
        base_url: address before `/chat/completions`.
        api_key: sent as bearer token when given.
        label: configured name, for errors; the model name when empty.
        max_tokens: longest answer in tokens.
        timeout: seconds of silence on the wire before ModelTimeoutError.
        stream_usage: ask for usage in the stream (some endpoints refuse the option).
        think_tags: take `<think>` blocks in the content for thinking.
        default_headers: further request headers.
        proxy: HTTP proxy address.
        pool: sessions; models of one catalogue share it.

    Raises:
        ModelError: each failure as its class in `deerflow.errors`.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, protected_namespaces=(), populate_by_name=True
    )

    model: str = Field(validation_alias=AliasChoices("model", "model_name"))
    base_url: str = Field(
        default=OPENAI_URL, validation_alias=AliasChoices("base_url", "openai_api_base")
    )
    api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("api_key", "openai_api_key"), repr=False
    )
    label: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: list[str] | str | None = Field(
        default=None, validation_alias=AliasChoices("stop", "stop_sequences")
    )
    reasoning_effort: str | None = None
    presence_penalty: float | None = None
    timeout: float | None = Field(
        default=None, validation_alias=AliasChoices("timeout", "request_timeout")
    )
    streaming: bool = True
    stream_usage: bool = True
    think_tags: bool = True
    default_headers: dict[str, str] = Field(
        default_factory=dict,
        validation_alias=AliasChoices("default_headers", "extra_headers"),
        exclude=True,
        repr=False,
    )
    extra_body: dict[str, Any] = Field(default_factory=dict)
    proxy: str | None = Field(default=None, exclude=True, repr=False)
    pool: SessionPool = Field(default_factory=SessionPool, exclude=True, repr=False)

    _base: Wire = PrivateAttr(default_factory=dict)
    _endpoint: Endpoint | None = PrivateAttr(default=None)
    _bound: BoundTools[_Bound] = PrivateAttr(default_factory=BoundTools["_Bound"])

    @model_validator(mode="before")
    @classmethod
    def _further_keys(cls, values: Any) -> Any:
        """Collect keys that are no field into the body."""
        aliases = [field.validation_alias for field in cls.model_fields.values()]
        choices = [alias.choices for alias in aliases if isinstance(alias, AliasChoices)]
        names = {str(choice) for group in choices for choice in group}
        return _sorted_keys(dict(values), names | set(cls.model_fields))

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        self.base_url = self.base_url.rstrip("/")
        limit = "max_completion_tokens" if self.base_url == OPENAI_URL else "max_tokens"
        base: Wire = {"model": self.model}
        base |= {name: getattr(self, name) for name in _BODY if getattr(self, name) is not None}
        if self.max_tokens is not None:
            base[limit] = self.max_tokens
        self._base = {**base, **self.extra_body}
        self._endpoint = self._make_endpoint()
        return self

    def _make_endpoint(self) -> Endpoint:
        headers = {"content-type": "application/json", **self.default_headers}
        if self.api_key is not None and self.api_key.get_secret_value():
            headers["authorization"] = f"Bearer {self.api_key.get_secret_value()}"
        return Endpoint(
            url=f"{self.base_url}/chat/completions",
            headers=headers,
            proxy=self.proxy,
            silence=self.timeout or READ_SECONDS,
            shown=self._shown,
            pool=self.pool,
        )

    @property
    def _llm_type(self) -> str:
        return "deerflow-openai"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self._base, "base_url": self.base_url}

    @property
    def _shown(self) -> str:
        return self.label or self.model

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"], params["ls_model_name"] = "openai", self.model
        return params

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: str | bool | Wire | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools; the same tool objects and settings give the same bound model."""
        settings = {**kwargs, "tool_choice": tool_choice, "strict": strict}

        def make() -> Runnable[LanguageModelInput, AIMessage]:
            prepared = prepare_tools(tools, strict=strict)
            choice = wire_choice(tool_choice, prepared)
            options = {**kwargs, "tool_choice": choice} if choice else kwargs
            return cast("Any", self.bind(tools=prepared, **options))

        return self._bound.get(tools, settings, make)

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """One AI message; straight from the wire when nobody listens to callbacks."""
        if not self._listened_to(config):
            return await self._complete(self._convert_input(input).to_messages(), stop, kwargs)
        token = _streamed.set(replies := [])
        try:
            message = await super().ainvoke(input, config, stop=stop, **kwargs)
        finally:
            _streamed.reset(token)
        if not replies or not isinstance(message.content, str):
            return settle(message)
        finished = replies[-1].message()
        finished.id = message.id  # the one that the chunks carried
        return finished

    def _listened_to(self, config: RunnableConfig | None) -> bool:
        if self.cache or self.rate_limiter is not None or get_llm_cache() is not None:
            return True
        callbacks = ensure_config(config).get("callbacks")
        if not self.callbacks and not self.verbose and nobody_listens(callbacks):
            return False
        manager = AsyncCallbackManager.configure(callbacks, self.callbacks, self.verbose)
        return bool(manager.handlers)

    async def _complete(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> AIMessage:
        reply = ReplyBuilder(self._shown, split_think=self.think_tags)
        async with aclosing(self._ask(reply, messages, stop, options)) as reads:
            async for _ in reads:
                pass
        return reply.message()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = await self._complete(messages, stop, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = ReplyBuilder(self._shown, split_think=self.think_tags)
        replies = _streamed.get()
        if replies is not None:
            replies.append(reply)
        async with aclosing(self._ask(reply, messages, stop, kwargs)) as reads:
            async for pieces in reads:
                for message in _chunks(pieces, reply):
                    yield ChatGenerationChunk(message=message)
        last = AIMessageChunk(
            content="",
            additional_kwargs=reply.extras(),
            response_metadata=reply.metadata(),
            usage_metadata=reply.usage,
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last, generation_info={"finish_reason": reply.finish})

    def _ask(
        self,
        reply: ReplyBuilder,
        messages: list[BaseMessage],
        stop: list[str] | None,
        options: dict[str, Any],
    ) -> AsyncGenerator[Sequence[Piece], None]:
        endpoint = self._endpoint or self._make_endpoint()
        return endpoint.ask(encode(self._body(messages, stop, options)), reply)

    def _body(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> Wire:
        body: Wire = {**self._base, "messages": wire_messages(messages), **call_options(options)}
        if stop:
            body["stop"] = stop
        if self.streaming:
            body["stream"] = True
            if self.stream_usage:
                body["stream_options"] = {"include_usage": True}
        return body

    async def aclose(self) -> None:
        """Close this loop's session (of all models that share the pool)."""
        await self.pool.aclose()


def _chunks(pieces: Sequence[Piece], reply: ReplyBuilder) -> list[AIMessageChunk]:
    """LangChain's chunks for one network read."""
    chunks = [
        AIMessageChunk(content=text)
        if kind == "text"
        else AIMessageChunk(content="", additional_kwargs={REASONING: text})
        for kind, text in pieces
        if kind != "call"
    ]
    chunks += [AIMessageChunk(content="", tool_call_chunks=[part]) for part in reply.fragments]
    reply.fragments.clear()
    return chunks


def _sorted_keys(raw: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """Constructor keys with those that are no field moved into `extra_body`."""
    given = {k: v for k, v in raw.items() if v is not None and k not in _SDK_ONLY}
    organization = given.pop("organization", None) or given.pop("openai_organization", None)
    body: dict[str, Any] = {key: given.pop(key) for key in list(given) if key not in known}
    body |= body.pop("model_kwargs", {}) | given.pop("extra_body", {})
    if organization:
        headers: dict[str, str] = given.pop("extra_headers", None) or {}
        headers |= given.get("default_headers") or {}
        given["default_headers"] = {"OpenAI-Organization": organization, **headers}
    return {**given, "extra_body": body}
