"""`OpenAIChatModel`: chat completions of OpenAI and every compatible endpoint, without an SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self, cast

import aiohttp
from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from pydantic import AliasChoices, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from deerflow.errors import ModelTimeoutError, UsageError
from deerflow.models.failures import from_response, unreachable
from deerflow.models.pool import CONNECT_SECONDS, SessionPool
from deerflow.models.private import REASONING
from deerflow.models.protocol import delta_sink
from deerflow.models.reply import ReplyBuilder
from deerflow.models.request import (
    Wire,
    encode,
    prepare_tools,
    wire_choice,
    wire_messages,
)
from deerflow.models.settle import settle
from deerflow.models.sse import SseDecoder
from deerflow.models.toolsets import BoundTools

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


class OpenAIChatModel(BaseChatModel):
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
    _headers: dict[str, str] = PrivateAttr(default_factory=dict)
    _bound: BoundTools[_Bound] = PrivateAttr(default_factory=BoundTools["_Bound"])

    @model_validator(mode="before")
    @classmethod
    def _further_keys(cls, values: Any) -> Any:
        """Collect keys that are no field into the body."""
        known = set(_SDK_ONLY) | {"model_kwargs", "openai_organization", "organization"}
        for name, field in cls.model_fields.items():
            known.add(name)
            if isinstance(field.validation_alias, AliasChoices):
                known.update(str(choice) for choice in field.validation_alias.choices)
        raw: dict[str, Any] = dict(values)
        organization = raw.pop("organization", None) or raw.pop("openai_organization", None)
        if organization:
            headers: dict[str, str] = raw.get("default_headers") or {}
            raw["default_headers"] = {"OpenAI-Organization": organization, **headers}
        body: dict[str, Any] = {
            **{key: raw.pop(key) for key in list(raw) if key not in known},
            **(raw.pop("model_kwargs", None) or {}),
            **(raw.pop("extra_body", None) or {}),
        }
        kept = {k: v for k, v in raw.items() if k not in _SDK_ONLY and v is not None}
        return {**kept, "extra_body": body}

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        self.base_url = self.base_url.rstrip("/")
        limit = "max_completion_tokens" if self.base_url == OPENAI_URL else "max_tokens"
        base: Wire = {"model": self.model}
        base |= {name: getattr(self, name) for name in _BODY if getattr(self, name) is not None}
        if self.max_tokens is not None:
            base[limit] = self.max_tokens
        self._base = {**base, **self.extra_body}
        self._headers = {"content-type": "application/json", **self.default_headers}
        if self.api_key is not None and self.api_key.get_secret_value():
            self._headers["authorization"] = f"Bearer {self.api_key.get_secret_value()}"
        return self

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
        if self._listened_to(config):
            return settle(await super().ainvoke(input, config, stop=stop, **kwargs))
        return await self._complete(self._convert_input(input).to_messages(), stop, kwargs)

    def _listened_to(self, config: RunnableConfig | None) -> bool:
        if self.cache or self.rate_limiter is not None or get_llm_cache() is not None:
            return True
        callbacks = ensure_config(config).get("callbacks")
        manager = AsyncCallbackManager.configure(callbacks, self.callbacks, self.verbose)
        return bool(manager.handlers)

    async def _complete(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> AIMessage:
        reply = ReplyBuilder(self._shown, split_think=self.think_tags)
        async for _ in self._receive(reply, messages, stop, options):
            pass
        return reply.message()

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise UsageError("This model is async only.", cure="Use ainvoke or astream.")

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
        async for pieces in self._receive(reply, messages, stop, kwargs):
            for kind, text in pieces:
                if kind == "call":
                    continue
                thinking = {REASONING: text} if kind == "reasoning" else {}
                message = AIMessageChunk(
                    content="" if thinking else text, additional_kwargs=thinking
                )
                if run_manager is not None:
                    await run_manager.on_llm_new_token(
                        message.text, chunk=ChatGenerationChunk(message=message)
                    )
                yield ChatGenerationChunk(message=message)
            for fragment in reply.fragments:
                message = AIMessageChunk(content="", tool_call_chunks=[fragment])
                yield ChatGenerationChunk(message=message)
            reply.fragments.clear()
        last = AIMessageChunk(
            content="",
            additional_kwargs=reply.extras(),
            response_metadata=reply.metadata(),
            usage_metadata=reply.usage,
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last, generation_info={"finish_reason": reply.finish})

    async def _receive(
        self,
        reply: ReplyBuilder,
        messages: list[BaseMessage],
        stop: list[str] | None,
        options: dict[str, Any],
    ) -> AsyncIterator[list[tuple[str, str]]]:
        """Post the request and feed the reply; yields what each network read made visible."""
        body = self._body(messages, stop, options)
        sink = delta_sink.get()
        try:
            async with await self._post(encode(body)) as response:
                if response.status != 200:
                    raise from_response(
                        response.status, await response.read(), response.headers, model=self._shown
                    )
                async for payloads in _payloads(response):
                    for payload in payloads:
                        reply.add(payload)
                    pieces = reply.drain()
                    if sink is not None:
                        for kind, text in pieces:
                            sink(kind, text)
                    yield pieces
                reply.end()
        except TimeoutError as error:
            raise ModelTimeoutError(
                f"Model {self._shown!r}: the endpoint was silent for too long.", model=self._shown
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(self._shown) from error
        pieces = reply.drain()
        if sink is not None:
            for kind, text in pieces:
                sink(kind, text)
        yield pieces

    async def _post(self, data: bytes) -> aiohttp.client._RequestContextManager:  # pyright: ignore[reportPrivateUsage]
        session = await self.pool.session()
        return session.post(
            f"{self.base_url}/chat/completions",
            data=data,
            headers=self._headers,
            proxy=self.proxy,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SECONDS, sock_read=self.timeout or READ_SECONDS
            ),
            allow_redirects=False,
        )

    def _body(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> Wire:
        body: Wire = {**self._base, "messages": wire_messages(messages)}
        if options:
            body |= {
                name: value
                for name, value in options.items()
                if value is not None and not name.startswith("ls_") and name != "stream_usage"
            }
            tools = body.get("tools")
            if tools is not None and not tools:
                del body["tools"]
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


async def _payloads(response: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """Payloads per network read; an endpoint that does not stream gives its whole answer as one."""
    if response.content_type == "application/json":
        whole = await response.read()
        yield [whole] if whole else []
        return
    decoder = SseDecoder()
    async for data in response.content.iter_any():
        yield decoder.feed(data)
    rest = decoder.close()
    if rest:
        yield rest
