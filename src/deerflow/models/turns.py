"""One turn of the embedded model: what it may do now, and what it then generates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from deerflow.errors import ContextOverflowError, ModelRequestError
from deerflow.models.compose import PROSE, UNWRITABLE, Writer
from deerflow.models.engine import Completion, Session
from deerflow.models.grammar import Action, Tool, action_grammar, instructions, read_action
from deerflow.models.window import fitted
from deerflow.sandbox.protocol import OUTPUTS

WRITE = "write_file"
READ = "read_file"
MAX_STEPS = 6
"""Turns with calls after one request; a small model that needs more is going in circles."""
_ATTEMPTS = 2
_MARGIN = 64
_SHRINK = (1.0, 0.5, 0.2)
"""Shares of the window to try: the estimate of tokens is too low for some scripts."""
_FRAMED = re.compile(r"<(system-reminder|uploads|memory|untrusted-content)\b[^>]*>.*?</\1>", re.S)
_REMINDED = re.compile(r"<system-reminder\b[^>]*>.*?</system-reminder>", re.S)
_PATH = re.compile(r"/mnt/(?:user-data|skills)/[\w./-]*\w")
_MAX_PATHS = 20
_LOOK_BACK = 20
_CUES = {
    "bash": {"bash", "run", "execute", "command", "shell"},
    "ls": {"ls", "list"},
    "calculator": {"calculate", "compute", "calculator"},
}
_EMPTY_CUES = {"file", "files", "ask", "write", "present", "clarification"}
"""Writing is led by `deliverables`, and a question of a small model helps nobody."""
_NOW_ANSWER = "Now answer the user in words, briefly."
"""Without it a small model takes the system text about files for the subject."""
_BRIEFLY = "Answer briefly."
"""Said last it is heeded: alone the request is answered at length, under a system text not at all
("How much is 6 times 7?" → "The user wants to know how much 6 times 7 is")."""
_DATED = re.compile(r"\b(?:today|tomorrow|yesterday|date|day|week|month|year)s?\b", re.I)
_REMINDER = "deerflow_reminder"
"""Key in additional_kwargs of messages that the harness, not the user, wrote."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Facts of the model that bound a turn.

    Attributes:
        n_ctx: window in tokens.
        max_tokens: of one answer.
        small: needs forms and single steps (see `compose`).
        seed: of the sampler.
    """

    n_ctx: int
    max_tokens: int
    small: bool
    seed: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What the caller wants of a turn.

    Attributes:
        messages: legal LangChain messages.
        tools: offered tools.
        choice: "auto", "any", "none", or the name of the tool that must be called.
        deliverables: virtual paths that the task asks for and that are missing; None when the
            caller does not say, empty when all are there.
    """

    messages: Sequence[BaseMessage]
    tools: tuple[Tool, ...] = ()
    choice: str = "auto"
    deliverables: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of it: an answer, or one call; usage over all generations."""

    text: str
    call: Action | None
    cut: bool
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(slots=True)
class _Counting:
    """A session that adds up the usage."""

    inner: Session
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def chat(
        self,
        messages: list[dict[str, str]],
        *,
        max_tokens: int,
        kind: str,
        grammar: str | None = None,
        **sampling: Any,
    ) -> Completion:
        done = self.inner.chat(
            messages, max_tokens=max_tokens, kind=kind, grammar=grammar, **sampling
        )
        self.input_tokens += done.input_tokens
        self.cached_tokens += done.cached_tokens
        self.output_tokens += done.output_tokens
        return done

    def say(self, kind: str, text: str) -> None:
        self.inner.say(kind, text)


@dataclass(frozen=True, slots=True)
class _Step:
    """A call since the current request and what came of it."""

    name: str
    args: dict[str, Any]
    result: str
    failed: bool


@dataclass(slots=True)
class Turn:
    """One turn. Make one per model call and `run` it on the engine's thread.

    Attributes:
        session: of the engine.
        ask: what is wanted.
        limits: of the model.
    """

    session: Session
    ask: Ask
    limits: Limits
    _count: _Counting = field(init=False)
    _request: str = field(init=False)
    _steps: list[_Step] = field(init=False)

    def __post_init__(self) -> None:
        """Find the current request and the steps after it."""
        self._count = _Counting(self.session)
        self._request, self._steps = _current(self.ask.messages)

    def run(self) -> Reply:
        """Decide, generate, and say what came of it. Raises ModelError."""
        missing = self.ask.deliverables
        if missing:
            return self._deliver(missing)
        if missing is not None and (written := self._written()):
            return self._close(written)
        action = self._act() if self._may_act() else None
        if action is not None and action.tool is not None:
            return self._reply("", action)
        return self._answer()

    def _deliver(self, missing: Sequence[str]) -> Reply:
        """The call that writes the first missing file, or why there is none."""
        tools = {tool.name: tool for tool in self.ask.tools}
        if WRITE not in tools:
            return self._answer()
        excuses: list[str] = []
        for path in missing:
            name = PurePosixPath(path).name
            if PurePosixPath(path).suffix.lstrip(".").lower() in UNWRITABLE:
                excuses.append(f"I cannot make {name}: the embedded model writes text files only.")
                continue
            tries = [step for step in self._steps if step.name == WRITE and _to(step, path)]
            if tries and READ in tools and not self._has_read(path):
                return self._reply("", Action(READ, {"path": path}))
            if len(tries) >= _ATTEMPTS:
                excuses.append(f"I could not write {name}. {tries[-1].result[:200]}")
                continue
            content = self._writer(len(tries)).document(self._request, path)
            if content and tools[WRITE].accepts(args := {"path": path, "content": content}):
                return self._reply("", Action(WRITE, args))
            excuses.append(f"I found no words for {name}.")
        return self._say(" ".join(excuses))

    def _close(self, written: list[_Step]) -> Reply:
        """Name the files, and say in the model's own words what is in the last one."""
        paths = dict.fromkeys(str(step.args["path"]) for step in written)
        names = ", ".join(path.removeprefix(f"{OUTPUTS}/") for path in paths)
        ready = f"The file is ready: {names}." if len(paths) == 1 else f"Ready: {names}."
        about = self._writer(0).sentence(str(written[-1].args.get("content", "")))
        return self._say(f"{ready} {about}".strip())

    def _act(self) -> Action | None:
        """One action under the grammar of the offered tools; None when none came."""
        tools = self._offered()
        may_answer = self.ask.choice == "auto"
        if not tools:
            return None
        small = self.limits.small
        grammar = action_grammar(
            tools,
            may_answer=may_answer,
            optional=not small,
            paths=self._paths() if small else (),
        )
        extra = instructions(tools, may_answer=may_answer)
        for attempt in range(_ATTEMPTS):
            try:
                done = self._chat(extra, kind="call", grammar=grammar, attempt=attempt)
            except ContextOverflowError:
                raise
            except ModelRequestError:  # a schema that llguidance does not take
                return None
            action = read_action(done.text, tools)
            if action is not None:
                return None if self._repeats(action) else action
        return None

    def _answer(self) -> Reply:
        """Prose, reported as it comes; a blank one is tried once more with another seed."""
        done = Completion()
        messages: Sequence[BaseMessage] = self.ask.messages
        extra = _NOW_ANSWER if self.limits.small else ""
        if self._is_talk():
            messages, extra = _talk(messages), ""
        for attempt in range(_ATTEMPTS):
            done = self._chat(extra, kind="text", grammar=None, attempt=attempt, messages=messages)
            if done.text.strip():
                break
        return self._reply(done.text.strip(), None, cut=done.cut)

    def _is_talk(self) -> bool:
        """Whether a small agent only has to answer: nothing was done, no day is to be known.

        An agent is who has tools; without, the system text may be the whole task.
        """
        if not (self.limits.small and self.ask.tools) or self._steps:
            return False
        return not _DATED.search(self._request)

    def _chat(
        self,
        extra: str,
        *,
        kind: str,
        grammar: str | None,
        attempt: int,
        messages: Sequence[BaseMessage] | None = None,
    ) -> Completion:
        """A generation over the transcript or these messages, shortened until it fits."""
        bound = min(self.limits.max_tokens, self.limits.n_ctx // 2)
        budget = self.limits.n_ctx - bound - _MARGIN
        for shrink in _SHRINK:
            try:
                return self._count.chat(
                    fitted(messages or self.ask.messages, int(budget * shrink), extra),
                    max_tokens=bound,
                    kind=kind,
                    grammar=grammar,
                    seed=self.limits.seed + attempt,
                    **PROSE,
                )
            except ContextOverflowError:
                continue
        raise ContextOverflowError(
            "The task does not fit the window of the embedded model.",
            cure="Shorten it, or configure a larger model.",
        )

    def _offered(self) -> tuple[Tool, ...]:
        """The tools of the choice; a small model, which would call any, those that are meant."""
        if self.ask.choice == "any":
            return self.ask.tools
        if self.ask.choice != "auto":
            return tuple(tool for tool in self.ask.tools if tool.name == self.ask.choice)
        if not self.limits.small:
            return self.ask.tools
        words = set(re.findall(r"[a-z]+", self._request.lower()))
        return tuple(tool for tool in self.ask.tools if words & _cues(tool.name))

    def _paths(self) -> tuple[str, ...]:
        """Virtual paths that the transcript names."""
        texts = (message.text for message in self.ask.messages[-_LOOK_BACK:])
        found = (path.rstrip(".") for text in texts for path in _PATH.findall(text))
        return tuple(dict.fromkeys(found))[:_MAX_PATHS]

    def _may_act(self) -> bool:
        if not self.ask.tools or self.ask.choice == "none":
            return False
        return self.ask.choice != "auto" or len(self._steps) < MAX_STEPS

    def _repeats(self, action: Action) -> bool:
        """Whether this very call was made since the request: its result will not change."""
        return any(step.name == action.tool and step.args == action.args for step in self._steps)

    def _written(self) -> list[_Step]:
        return [step for step in self._steps if step.name == WRITE and not step.failed]

    def _has_read(self, path: str) -> bool:
        return any(step.name == READ and _to(step, path) for step in self._steps)

    def _writer(self, attempt: int) -> Writer:
        limits = self.limits
        bound = min(limits.max_tokens, limits.n_ctx // 2)
        return Writer(self._count, limits.small, bound, limits.seed + attempt)

    def _say(self, text: str) -> Reply:
        self.session.say("text", text)
        return self._reply(text, None)

    def _reply(self, text: str, call: Action | None, *, cut: bool = False) -> Reply:
        count = self._count
        return Reply(text, call, cut, count.input_tokens, count.cached_tokens, count.output_tokens)


def _cues(name: str) -> set[str]:
    """Words of a request that mean this tool."""
    return _CUES.get(name, set(name.lower().split("_")) - _EMPTY_CUES)


def _to(step: _Step, path: str) -> bool:
    return step.args.get("path") == path


def _talk(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The conversation without system text and reminders, which a small model takes for it."""
    spoken = [message for message in messages if not isinstance(message, SystemMessage)]
    for index, message in enumerate(spoken):
        if isinstance(message, HumanMessage):
            spoken[index] = HumanMessage(_REMINDED.sub("", message.text).strip())
    return [*spoken, HumanMessage(_BRIEFLY)]


def _current(messages: Sequence[BaseMessage]) -> tuple[str, list[_Step]]:
    """The user's newest words without our frames, and the calls since."""
    start = -1
    for index, message in enumerate(messages):
        if isinstance(message, HumanMessage) and _REMINDER not in message.additional_kwargs:
            start = index
    if start < 0:
        return "", []
    results = {
        message.tool_call_id: message
        for message in messages[start:]
        if isinstance(message, ToolMessage)
    }
    steps: list[_Step] = []
    for message in messages[start:]:
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            result = results.get(call["id"] or "")
            text = result.text if result is not None else ""
            failed = result is None or result.status == "error" or text.startswith("Error")
            steps.append(_Step(call["name"], call["args"], text, failed))
    return _FRAMED.sub("", messages[start].text).strip(), steps
