"""A chat model that plays back written turns, streams like a real one, and fails loudly."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
)
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from deerflow.errors import ScriptError
from deerflow.models.async_only import AsyncChatModel
from deerflow.models.protocol import delta_sink
from deerflow.models.script import (
    DEFAULT_STORY,
    MARKER,
    Asked,
    ScriptedCall,
    Story,
    Turn,
    read,
)

_WORDS = re.compile(r"\S+\s*|\s+")


class Request(NamedTuple):
    """One recorded request: its messages (system message included) and its tools in OpenAI form."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]]

    @property
    def tool_names(self) -> list[str]:
        """Names of the offered tools in order."""
        return [str(tool.get("function", tool).get("name", "")) for tool in self.tools]


class ScriptedChatModel(AsyncChatModel):
    """Plays back `script` turn by turn; see `deerflow.models.script.Turn` for the keys of a turn.

    A script is a list of turns, or a mapping name → turns; there the newest human message that says
    `script:name` chooses the story ("default" without a marker). A turn answers the first request
    that its `when` fits, so one script can serve runs side by side.

    Attributes:
        script: list, mapping, path of a YAML file, or YAML text.
        model: the model name that replies report.
        follow: "calls" plays the turns in order of the calls; "transcript" counts the answers in
            the request instead, so that any number of runs, and a new process after a kill, each
            go on at their own place.

    Raises:
        ConfigError: on construction, with every problem's turn and line.
        ScriptError: on a call for which no turn is left.
    """

    script: Any = Field(default_factory=list[Any])
    model: str = "scripted"
    follow: Literal["calls", "transcript"] = "calls"

    _stories: dict[str, Story] = PrivateAttr(default_factory=dict[str, Story])
    _requests: list[Request] = PrivateAttr(default_factory=list[Request])

    def model_post_init(self, context: Any, /) -> None:
        """Parse the script."""
        super().model_post_init(context)
        self._stories = read(self.script)

    @classmethod
    def from_yaml(cls, source: str | Path, **settings: Any) -> ScriptedChatModel:
        """A model from a YAML file or YAML text."""
        return cls(script=source, **settings)

    @property
    def requests(self) -> list[Request]:
        """Every request in order of arrival, failed ones included."""
        return self._requests

    @property
    def remaining(self) -> int:
        """Turns that were not asked for yet, repeats counted, of all stories."""
        return sum(story.remaining for story in self._stories.values())

    def assert_finished(self) -> None:
        """Raise ScriptError when a turn was never asked for."""
        left = [turn.label for story in self._stories.values() for turn in story.unplayed]
        if left:
            raise ScriptError(f"Never asked for: {'; '.join(left)}.")

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; they are recorded, the script alone decides what is called."""
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=formatted, **kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = self._take(messages, kwargs)
        async for _ in self._pieces(turn):
            pass
        message = self._message(turn, _message_id(turn, messages))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn = self._take(messages, kwargs)
        id_ = _message_id(turn, messages)
        async for kind, text in self._pieces(turn):
            chunk = AIMessageChunk(content=text if kind == "text" else "", id=id_)
            if kind == "reasoning":
                chunk.additional_kwargs["reasoning_content"] = text
            yield ChatGenerationChunk(message=chunk)
        for part in _call_chunks(turn):
            yield ChatGenerationChunk(
                message=AIMessageChunk(content="", id=id_, tool_call_chunks=[part])
            )
        last = AIMessageChunk(
            content="",
            id=id_,
            response_metadata=self._metadata(turn),
            usage_metadata=_usage(turn),
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last)

    def _take(self, messages: list[BaseMessage], kwargs: Mapping[str, Any]) -> Turn:
        request = Request(list(messages), list(kwargs.get("tools") or ()))
        self._requests.append(request)
        asked = _asked(request)
        name = DEFAULT_STORY if set(self._stories) == {DEFAULT_STORY} else asked.story
        story = self._stories.get(name or DEFAULT_STORY)
        if story is None:
            known = ", ".join(self._stories) or "none"
            raise ScriptError(
                f"The script has no story {name or DEFAULT_STORY!r}; asked with {asked}.",
                cure=f"Known stories: {known}.",
            )
        return story.next(asked) if self.follow == "calls" else story.following(asked)

    async def _pieces(self, turn: Turn) -> AsyncIterator[tuple[str, str]]:
        """Words with the written waits, told to the sink as well; then the written error."""
        sink = delta_sink.get()
        if turn.delay_ms:
            await asyncio.sleep(turn.delay_ms / 1000)
        words = [("reasoning", word) for word in _WORDS.findall(turn.reasoning)]
        words += [("text", word) for word in _WORDS.findall(turn.text)]
        for number, (kind, word) in enumerate(words):
            if number and turn.gap_ms:
                await asyncio.sleep(turn.gap_ms / 1000)
            if sink is not None:
                sink(kind, word)
            yield kind, word
        if sink is not None:
            for call in turn.calls:
                sink("call", call.args if isinstance(call.args, str) else json.dumps(call.args))
        if turn.error is not None:
            if words and turn.gap_ms:
                await asyncio.sleep(turn.gap_ms / 1000)
            raise turn.error.exception(self.model)

    def _metadata(self, turn: Turn) -> dict[str, Any]:
        reason = turn.finish_reason or ("tool_calls" if turn.calls else "stop")
        return {"model_name": self.model, "finish_reason": reason}

    def _message(self, turn: Turn, id_: str) -> AIMessage:
        calls: list[ToolCall] = []
        invalid: list[InvalidToolCall] = []
        for index, call in enumerate(turn.calls):
            call_id, args = _call_id(turn, index), _arguments(call)
            if isinstance(args, str):
                invalid.append(
                    InvalidToolCall(
                        name=call.name,
                        args=args,
                        id=call_id,
                        error="arguments are not a JSON object",
                        type="invalid_tool_call",
                    )
                )
            else:
                calls.append(ToolCall(name=call.name, args=args, id=call_id, type="tool_call"))
        return AIMessage(
            content=turn.text,
            id=id_,
            tool_calls=calls,
            invalid_tool_calls=invalid,
            additional_kwargs={"reasoning_content": turn.reasoning} if turn.reasoning else {},
            response_metadata=self._metadata(turn),
            usage_metadata=_usage(turn),
        )


def _asked(request: Request) -> Asked:
    human, story, start = "", None, 0
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if not isinstance(message, HumanMessage):
            continue
        human = human or message.text
        if found := MARKER.findall(message.text):
            story, start = str(found[-1]), index
            break
    answered = sum(isinstance(message, AIMessage) for message in request.messages[start:])
    return Asked(human, story, answered, tuple(request.tool_names))


def _message_id(turn: Turn, messages: Sequence[BaseMessage]) -> str:
    """The same for the same turn after the same transcript, another one otherwise."""
    digest = hashlib.sha256(f"{turn.number}:{len(messages)}".encode())
    for message in messages[-4:]:
        digest.update(f"\0{message.type}\0{message.text}".encode())
    return f"scripted-{turn.number}-{digest.hexdigest()[:12]}"


def _call_id(turn: Turn, index: int) -> str:
    return turn.calls[index].id or f"call_{turn.number}_{index}"


def _arguments(call: ScriptedCall) -> dict[str, Any] | str:
    """Arguments as an object; raw text that is none stays text."""
    if isinstance(call.args, dict):
        return call.args
    try:
        parsed = json.loads(call.args)
    except ValueError:
        return call.args
    return cast(dict[str, Any], parsed) if isinstance(parsed, dict) else call.args


def _call_chunks(turn: Turn) -> list[ToolCallChunk]:
    """Each call as a provider streams it: id and name first, then the arguments in two pieces."""
    chunks: list[ToolCallChunk] = []
    for index, call in enumerate(turn.calls):
        raw = call.args if isinstance(call.args, str) else json.dumps(call.args, ensure_ascii=False)
        half = len(raw) // 2
        head = (call.name, _call_id(turn, index), "")
        for name, id_, args in (
            head,
            (None, None, raw[:half]),
            (None, None, raw[half:]),
        ):
            chunks.append(
                ToolCallChunk(name=name, id=id_, args=args, index=index, type="tool_call_chunk")
            )
    return chunks


def _usage(turn: Turn) -> UsageMetadata | None:
    if turn.usage is None:
        return None
    usage = turn.usage
    return UsageMetadata(
        input_tokens=usage.input,
        output_tokens=usage.output,
        total_tokens=usage.input + usage.output,
        input_token_details={"cache_read": usage.cached},
        output_token_details={"reasoning": usage.reasoning},
    )
