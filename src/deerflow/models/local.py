"""The embedded model: llama.cpp in this process, a chat model that makes no illegal call."""

from __future__ import annotations

import asyncio
import json
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, model_validator

from deerflow.models import gguf, hub
from deerflow.models.async_only import AsyncChatModel
from deerflow.models.engine import Emit, Engine, ModelKey, Session, check_installed, physical_cores
from deerflow.models.grammar import Tool
from deerflow.models.protocol import delta_sink
from deerflow.models.turns import Ask, Limits, Reply, Turn

SMALL_BYTES = 600_000_000
"""Files below this are treated as small models: about one billion parameters at 4 bits."""


class LocalChatModel(AsyncChatModel):
    """A GGUF model in this process.

    Which file: `path`, or `repo` + `file` (downloaded on first use), or the bundled SmolLM2 below
    `home`, where `deerflow models pull` puts it.

    A call may carry `deliverables`: virtual paths that the task asks for and that are missing.
    While there are some, the only action is to write the first one; an empty list means that all
    are there, and only an answer is left.

    Attributes:
        path: any GGUF file.
        repo, file, revision, endpoint, sha256: a file on a hub, see `hub.HubFile`.
        home: DEER_FLOW_HOME.
        model: the name that replies report.
        n_ctx: window in tokens; 4096 loads fast and takes 94 MB with the bundled model.
        max_tokens: of one answer or one freely written file.
        threads: None = one for a small model, else physical cores.
        seed: of the sampler, so that a task can be repeated.
        small: whether the model needs forms and single steps; None = by the size of its file.

    Raises:
        ModelError: on a call: the file is missing or damaged, xllamacpp is missing, the task does
            not fit the window.
    """

    path: Path | None = None
    repo: str | None = None
    file: str | None = None
    revision: str = "main"
    endpoint: str = hub.ENDPOINT
    sha256: str | None = None
    home: Path = Path(".deer-flow")
    model: str = gguf.SMOLLM2.title
    n_ctx: int = Field(default=4_096, ge=512)
    max_tokens: int = Field(default=512, ge=16)
    threads: int | None = Field(default=None, ge=1)
    seed: int = 7
    small: bool | None = None

    engine: ClassVar[Engine] = Engine()
    """Shared by all instances: a process has one llama.cpp thread and at most one loaded model."""

    _key: ModelKey | None = PrivateAttr(default=None)
    _is_small: bool = PrivateAttr(default=True)

    @model_validator(mode="after")
    def _one_source(self) -> LocalChatModel:
        if (self.repo is None) != (self.file is None):
            raise ValueError("`repo` and `file` belong together")
        if self.path is not None and self.repo is not None:
            raise ValueError("either `path`, or `repo` and `file`")
        return self

    @property
    def _llm_type(self) -> str:
        return "local"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; `deliverables=[…]` may be bound as well."""
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=formatted, **kwargs)

    async def prepare(self, progress: gguf.Progress = lambda _line: None) -> Path:
        """The model's file, fetched from the hub if need be, and checked.

        Raises:
            ModelError: missing or damaged, or llama.cpp is; whatever `hub.pull` raises.
        """
        check_installed()
        if self.path is not None:
            await asyncio.to_thread(gguf.check, self.path)
            return self.path
        if self.repo is not None and self.file is not None:
            source = hub.HubFile(self.repo, self.file, self.revision, self.endpoint, self.sha256)
            found = await hub.pull(source, self.home, progress=progress)
            await asyncio.to_thread(gguf.check, found)
            return found
        bundle, found = gguf.SMOLLM2, gguf.bundled(self.home)
        await asyncio.to_thread(gguf.check, found, sha256=bundle.sha256, size=bundle.size)
        return found

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = await self._turn(messages, kwargs, delta_sink.get() or _ignore)
        return ChatResult(generations=[ChatGeneration(message=self._message(reply))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        sink = delta_sink.get()

        def emit(kind: str, text: str) -> None:
            if sink is not None:
                sink(kind, text)
            if kind == "text" and text:
                pieces.put_nowait(text)

        task = asyncio.ensure_future(self._turn(messages, kwargs, emit))
        task.add_done_callback(lambda _task: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
            yield ChatGenerationChunk(message=self._last_chunk(await task))
        finally:
            task.cancel()

    async def _turn(
        self, messages: Sequence[BaseMessage], settings: Mapping[str, Any], emit: Emit
    ) -> Reply:
        key = await self._source(emit)
        ask = _ask(messages, settings)
        bound = int(settings.get("max_tokens") or self.max_tokens)
        limits = Limits(key.n_ctx, bound, self._is_small, self.seed)

        def work(session: Session) -> Reply:
            return Turn(session, ask, limits).run()

        return await self.engine.turn(key, work, emit)

    async def _source(self, emit: Emit) -> ModelKey:
        """The key of the model; its file is checked again whenever it will be loaded."""
        if self._key is not None and self.engine.has(self._key):
            return self._key
        path = await self.prepare(lambda _line: emit("call", ""))
        if self._key is None:
            size = (await asyncio.to_thread(path.stat)).st_size
            self._is_small = size < SMALL_BYTES if self.small is None else self.small
            # Threads of llama.cpp spin while they wait for each other: on two busy cores a second
            # one made the small model eight times slower (78 s against 9 s for one document).
            threads = self.threads or (1 if size < SMALL_BYTES else physical_cores())
            self._key = ModelKey(path, self.n_ctx, threads)
            self.engine.hold(self._key)
            weakref.finalize(self, self.engine.release, self._key).atexit = False
        return self._key

    def _metadata(self, reply: Reply) -> dict[str, Any]:
        reason = "tool_calls" if reply.call else "length" if reply.cut else "stop"
        return {"model_name": self.model, "model_provider": "local", "finish_reason": reason}

    def _message(self, reply: Reply) -> AIMessage:
        return AIMessage(
            content=reply.text,
            tool_calls=_calls(reply),
            response_metadata=self._metadata(reply),
            usage_metadata=_usage(reply),
        )

    def _last_chunk(self, reply: Reply) -> AIMessageChunk:
        calls: list[ToolCallChunk] = []
        for index, call in enumerate(_calls(reply)):
            text = json.dumps(call["args"], ensure_ascii=False)
            calls.append(
                ToolCallChunk(
                    name=call["name"],
                    id=call["id"],
                    args=text,
                    index=index,
                    type="tool_call_chunk",
                )
            )
        return AIMessageChunk(
            content="",
            tool_call_chunks=calls,
            response_metadata=self._metadata(reply),
            usage_metadata=_usage(reply),
            chunk_position="last",
        )


def _ignore(_kind: str, _text: str) -> None:
    """Nobody listens."""


def _ask(messages: Sequence[BaseMessage], settings: Mapping[str, Any]) -> Ask:
    deliverables = settings.get("deliverables")
    return Ask(
        messages,
        tuple(Tool.from_openai(entry) for entry in settings.get("tools") or ()),
        _choice(settings.get("tool_choice")),
        None if deliverables is None else tuple(deliverables),
    )


def _choice(value: Any) -> str:
    """`tool_choice` in any of its usual forms as "auto", "any", "none" or a tool's name."""
    if isinstance(value, Mapping):
        chosen = cast("Mapping[str, Any]", value)
        return str(chosen.get("function", chosen).get("name", "any"))
    if value in (True, "required"):
        return "any"
    return str(value) if value else "auto"


def _calls(reply: Reply) -> list[ToolCall]:
    if reply.call is None or reply.call.tool is None:
        return []
    id_ = f"call_{uuid.uuid4().hex[:12]}"
    return [ToolCall(name=reply.call.tool, args=reply.call.args, id=id_, type="tool_call")]


def _usage(reply: Reply) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        total_tokens=reply.input_tokens + reply.output_tokens,
        input_token_details={"cache_read": reply.cached_tokens},
    )
