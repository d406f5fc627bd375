"""Row 6: long conversations go to the model as a summary, the user's limits, and what is recent.

The stored messages stay as they are. The state channel `compaction` says how a request is built
from them; `compaction.py` builds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.state import CompactionState
from deerflow.config.agents import ContextSizeConfig
from deerflow.config.schema import SummarizationConfig
from deerflow.errors import ContextOverflowError, NotFoundError
from deerflow.middlewares.clarification import open_questions
from deerflow.middlewares.compaction import (
    View,
    best_cut,
    command,
    is_frame,
    pinned,
    shortened,
    view_of,
    without_commands,
)
from deerflow.middlewares.delimiters import one_line
from deerflow.middlewares.kept_words import ANSWER, kept_words
from deerflow.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from deerflow.middlewares.loop_detection import forget_reads
from deerflow.middlewares.past import facts, stored
from deerflow.middlewares.request_size import SHARE, Sizes, counted, room, sizes_of, window_of
from deerflow.middlewares.requests import COMPACTED, is_request, last_request
from deerflow.middlewares.side_calls import spec_for
from deerflow.middlewares.summary import Summariser, Task, longest
from deerflow.models.protocol import Catalog, ModelSpec
from deerflow.models.usage import estimate_text

TARGET = 0.6
"""Of what the limit leaves beside system text and schemas: so full is a compacted request, so that
the next compaction is far away."""
WORDS = 0.3
"""Of the limit (about a quarter of the window) that the user's earlier words may fill; sentences
with corrections and limits may fill twice that."""
FACTS = 700
"""Tokens reserved for delegations and files, at most a 32nd of the window."""
GAIN = 20
"""A compaction must free at least a 20th of the limit, else it is not worth a summary."""
_LONG = 1 << 40


@dataclass(frozen=True, slots=True)
class _Request:
    """One request on its way: its view, its size in tokens, and what it may have.

    Attributes:
        fixed: tokens of system text and schemas.
        tokens: of all, as far as the provider's numbers tell.
        limit: tokens from which it is compacted.
        window: of the model, in tokens.
    """

    view: View
    fixed: int
    tokens: int
    limit: int
    window: int


@dataclass(frozen=True, slots=True)
class _Aim:
    """How to compact.

    Attributes:
        keep: messages at the end that stay if they fit.
        gain: tokens that must become free.
        hint: what the user asked to be kept above all.
        manual: whether the user asked for it.
    """

    keep: int
    gain: int
    hint: str = ""
    manual: bool = False


class SummarizationMiddleware(Middleware):
    """Compacts before a request outgrows the window, when a provider says so, and on `/compact`.

    Args:
        config: `summarization`.
        catalog: windows of the models, and the model that summarises.
    """

    def __init__(self, config: SummarizationConfig, catalog: Catalog) -> None:
        self._config = config
        self._catalog = catalog
        self._model = catalog.get(config.model_name) if config.model_name else None

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Hand on the compacted view; compact first when it is too large.

        Raises:
            ContextOverflowError: the request does not fit although nothing is left to cover.
        """
        hint = command(call.messages[-1]) if call.messages and call.run.parent is None else None
        if hint is not None:
            return await self._on_command(call, hint)
        state: CompactionState | None = call.state.get("compaction")
        known, told = state, list[dict[str, Any]]()
        request = self._measured(call, state)
        if self._too_large(request):
            gain = request.limit // GAIN if request.tokens > request.limit else 1
            aim = _Aim(self._keep(call, request), gain)
            state, request = await self._compacted(call, state, request, aim, told)
        try:
            reply = await next_(call.with_(messages=request.view.messages))
        except ContextOverflowError:
            sizes = sizes_of(call.run)
            sizes.limit = max(1, int(min(request.tokens, room(self._spec(call))) * SHARE))
            before, request = state, self._measured(call, state, whole=True)
            aim = _Aim(self._keep(call, request), 1)
            state, request = await self._compacted(call, state, request, aim, told)
            if state is before:
                raise
            reply = await next_(call.with_(messages=request.view.messages))
        if state is not known:
            _announce(call, reply, state, told)
        return reply

    # --- how large ---

    def _measured(
        self, call: ModelCall, state: CompactionState | None, *, whole: bool = False
    ) -> _Request:
        """View and size; unless `whole`, schemas count when the rest is worth compacting."""
        sizes, spec = sizes_of(call.run), self._spec(call)
        view = view_of(call.messages, state)
        limit = self._limit(spec, sizes)
        fixed, own = sizes.of_system(call.system), sizes.grown(view.messages)
        if whole or own * 4 >= limit:
            fixed += sizes.of_tools(call.tools)
        tokens = counted(view.messages, fixed + own, view.seen, sizes)
        return _Request(view, fixed, tokens, limit, window_of(spec))

    def _limit(self, spec: ModelSpec | None, sizes: Sizes) -> int:
        """Tokens from which a request is compacted: the smallest of all that apply."""
        known = spec is not None and spec.context_window is not None
        set_ = [
            int(one.value if one.type == "tokens" else one.value * window_of(spec))
            for one in self._config.trigger or ()
            if one.type != "messages"
        ]
        if known or not self._config.trigger:
            set_.append(int(room(spec) * (1 if self._config.trigger else SHARE)))
        if sizes.limit is not None:
            set_.append(sizes.limit)
        return max(1, min(set_, default=room(spec)))

    def _too_large(self, request: _Request) -> bool:
        if request.tokens > request.limit:
            return True
        tail = len(request.view.messages) - request.view.head
        return any(
            one.type == "messages" and tail > one.value for one in self._config.trigger or ()
        )

    def _keep(self, call: ModelCall, request: _Request) -> int:
        """Messages that stay if they fit; at most half of those that set it off."""
        keep: ContextSizeConfig = self._config.keep
        number = int(keep.value)
        if keep.type != "messages":
            left = keep.value if keep.type == "tokens" else keep.value * request.window
            sizes, number = sizes_of(call.run), 0
            for message in reversed(call.messages):
                left -= sizes.one(message)
                if left < 0:
                    break
                number += 1
        counts = [one.value for one in self._config.trigger or () if one.type == "messages"]
        return max(1, min(number, int(min(counts)) // 2) if counts else number)

    def _spec(self, call: ModelCall) -> ModelSpec | None:
        """Facts of the model that will answer: row 15 may have fallen over to another."""
        try:
            name = call.run.scratch.get(LLMErrorHandlingMiddleware)
            if isinstance(name, str):
                return self._catalog.spec(name)
            return self._catalog.spec_of(call.model)
        except NotFoundError:  # handed in from outside, not out of the catalogue
            return None

    # --- compact ---

    async def _compacted(
        self,
        call: ModelCall,
        state: CompactionState | None,
        request: _Request,
        aim: _Aim,
        told: list[dict[str, Any]],
    ) -> tuple[CompactionState | None, _Request]:
        """The next state and request; the same when there is too little to cover."""
        messages, start = call.messages, request.view.start
        plan = await asyncio.to_thread(_planned, call, request, aim)
        if plan is None:
            return state, request
        cut, limit, kept = plan
        covered = [message for message in messages[start:cut] if command(message) is None]
        count = state["count"] + 1 if state else 1
        summary = state["summary"] if state else ""
        files = list(state["files"]) if state else []
        if {*range(start, cut)} - {*kept}:  # else only results were too long
            task = Task(covered, summary, aim.hint, request.window, call.turn)
            summary = await self._summariser(call).write(task)
            path = await stored(messages[start:cut], call.run, count)
            files += [path] if path and path not in files else []
        words = await asyncio.to_thread(_words, call, cut, kept, request.limit)
        delegations: Any = call.state.get("delegations") or {}
        fresh = CompactionState(
            upto=_owner(messages, cut),
            summary=summary,
            kept=[messages[index].id or "" for index in kept],
            count=count,
            words="\n\n".join(f"- {text}" for text in words),
            facts=facts(delegations, messages[:cut], call.state.get("artifacts") or []),
            files=files,
            seen=messages[-1].id or "",
            cut=limit,
        )
        sizes_of(call.run).renew()
        made = self._measured(call, fresh, whole=True)
        told.append(
            {
                "upto": fresh["upto"],
                "messages": len(covered),
                "tokens_before": request.tokens,
                "tokens_after": made.tokens,
                "manual": aim.manual,
            }
        )
        forget_reads(call.run)
        return fresh, made

    def _summariser(self, call: ModelCall) -> Summariser:
        """By the configured model, else the run's; a small local one writes none worth the wait."""
        model = self._model or (None if self._is_small(call) else call.model)
        spec = spec_for(self._catalog, model or call.model, call.run.model_name)
        return Summariser(self._config, model, spec, call.run)

    def _is_small(self, call: ModelCall) -> bool:
        try:
            return self._catalog.spec_of(call.model).compact
        except NotFoundError:  # handed in from outside, not out of the catalogue
            return False

    # --- /compact ---

    async def _on_command(self, call: ModelCall, hint: str) -> ModelReply:
        """Compact all but the last exchange, say so, and end the run without a model turn."""
        state: CompactionState | None = call.state.get("compaction")
        before = without_commands(call.messages[:-1])
        call = call.with_(messages=before)
        told: list[dict[str, Any]] = []
        fresh = state
        if before:
            request = self._measured(call, state, whole=True)
            keep = len(before) - max(0, last_request(before))
            aim = _Aim(keep, 1, hint, manual=True)
            fresh, _ = await self._compacted(call, state, request, aim, told)
        text = f"Nothing to compact: the conversation has {len(before)} messages so far."
        if told and fresh is not None:
            one = told[-1]
            where = f" Their whole text is in {fresh['files'][-1]}." if fresh["files"] else ""
            text = (
                f"Compacted: {one['messages']} messages \u2192 a summary of "
                f"{len(fresh['summary'].split())} words; about {one['tokens_before']:,} \u2192 "
                f"{one['tokens_after']:,} tokens.{where}"
            )
        message = AIMessage(content=text, id=f"compact-{call.run.run_id}")
        message.additional_kwargs[COMPACTED] = True
        reply = ModelReply(message, jump="end")
        if fresh is not state:
            _announce(call, reply, fresh, told)
        return reply


def _announce(
    call: ModelCall, reply: ModelReply, state: CompactionState | None, told: list[dict[str, Any]]
) -> None:
    """Once the reply is there: what happened is stored and told together with it."""
    reply.update["compaction"] = state
    for payload in told:
        call.run.emit("compacted", payload)


def _planned(call: ModelCall, request: _Request, aim: _Aim) -> tuple[int, int, list[int]] | None:
    """Cut, limit of results and indices to keep; None when too little would be covered."""
    messages, sizes, start = call.messages, sizes_of(call.run), request.view.start
    always = pinned(messages)
    sums = {0: _sums(sizes, messages)}
    asked = _sums(sizes, [m if is_request(m) else None for m in messages])
    words = sum(estimate_text(t) for t in _words(call, len(messages), always, request.limit))
    frame = longest(request.window) + min(FACTS, request.window // 32)

    def size(cut: int, limit: int) -> int:
        if limit not in sums:
            sums[limit] = _sums(sizes, [shortened(message, limit) for message in messages])
        each = sums[limit]
        kept = sum(each[index + 1] - each[index] for index in always if index < cut)
        said = min(words, asked[cut])
        return request.fixed + frame + said + kept + each[-1] - each[cut]

    aimed = request.fixed + int(max(0, request.limit - request.fixed) * TARGET)
    cut, limit = best_cut(messages, start, aim.keep, size, (aimed, request.limit))
    kept = [index for index in always if index < cut]
    left = [*(messages[index] for index in kept), *messages[cut:]]
    shown = [message for message in request.view.messages if not is_frame(message)]
    gain = sizes.of(shown) - sizes.of([shortened(message, limit or _LONG) for message in left])
    return None if gain < aim.gain else (cut, limit, kept)


def _sums(sizes: Sizes, messages: Sequence[AnyMessage | None]) -> list[int]:
    """Tokens before each place; None counts nothing."""
    return [0, *accumulate(0 if message is None else sizes.one(message) for message in messages)]


def _words(call: ModelCall, cut: int, kept: list[int], limit: int) -> list[str]:
    """What stays of the user's words before a cut, as stored: without what rows put around it."""
    held = set(kept)
    written = {m.id: m for m in call.state.get("messages", ()) if is_request(m)}
    texts = [
        _answering(call.messages, index) + str(written.get(message.id, message).text)
        for index, message in enumerate(call.messages[:cut])
        if index not in held and is_request(message) and command(message) is None
    ]
    budget = int(limit * WORDS)
    return kept_words(texts, budget, 2 * budget)


def _answering(messages: list[AnyMessage], index: int) -> str:
    """The question that a request answers, without which a short answer says nothing; or ""."""
    first = index
    while first and messages[first - 1].type == "tool":
        first -= 1
    asked = [one_line(one["question"]) for one in open_questions(messages[first:index])]
    return f"{ANSWER} \u2039{' / '.join(asked)}\u203a: " if asked else ""


def _owner(messages: list[AnyMessage], cut: int) -> str:
    """Id of the last message before the cut that is no result."""
    return next((m.id or "" for m in reversed(messages[:cut]) if m.type != "tool"), "")
