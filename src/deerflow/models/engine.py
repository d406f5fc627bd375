"""llama.cpp in this process: one thread, at most one loaded model, calls in order of arrival."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import importlib.util
import os
import secrets
import shutil
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from deerflow.errors import (
    ContextOverflowError,
    ModelError,
    ModelRequestError,
    ModelUnavailableError,
)

T = TypeVar("T")

Emit = Callable[[str, str], None]
"""emit(kind, text) with the kinds of `models.protocol.DeltaSink`."""

BATCH = 64
"""Prompt tokens evaluated between two looks at the stop flag: 0.3 s on two cores."""
QUEUE_BEAT = 10.0
"""Seconds between two signs of life of a call that waits for its turn."""
PROMPT_CACHE_MIB = 64
"""Memory for prefixes of earlier prompts; a 135M model needs 23 kB per token."""
_LLAMA = "xllamacpp"


class Stopped(Exception):
    """The caller of a turn went away."""


@dataclass(frozen=True, slots=True)
class ModelKey:
    """What makes a loaded model the same one.

    Attributes:
        path: the GGUF file.
        n_ctx: window in tokens.
        threads: for generation and for prompts.
    """

    path: Path
    n_ctx: int
    threads: int


@dataclass(slots=True)
class Completion:
    """One finished or cut generation.

    Attributes:
        text: what was generated.
        cut: True when the token limit ended it.
        input_tokens, cached_tokens, output_tokens: as llama.cpp counts them.
    """

    text: str = ""
    cut: bool = False
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class Session(Protocol):
    """What a turn may do while it has the engine's thread."""

    def chat(
        self,
        messages: list[dict[str, str]],
        *,
        max_tokens: int,
        kind: str,
        grammar: str | None = None,
        **sampling: Any,
    ) -> Completion:
        """Generate one assistant message.

        Args:
            messages: {role, content} in order.
            max_tokens: bound of the generation.
            kind: how its pieces are reported: "text", or "call" for what is not shown as it comes.
            grammar: llguidance grammar that the text obeys.
            **sampling: further fields of llama.cpp's chat completion request.

        Raises:
            ContextOverflowError: the prompt does not fit the window.
            ModelError: llama.cpp refuses the request.
            Stopped: the caller went away.
        """
        ...

    def say(self, kind: str, text: str) -> None:
        """Report a text that no generation made, in order with those that were."""
        ...


def physical_cores() -> int:
    """Cores that are worth a thread each: half of the hardware threads beyond two, at least one.

    llama.cpp gains nothing from a second thread of a core; which ones share it is not asked for.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(min(usable or 1, 2), (usable or 1) // 2)


class Engine:
    """Owner of the thread and of the loaded model.

    A turn is a plain function that gets a `Session` and runs on the engine's thread; turns run one
    after another in order of arrival. A model stays loaded while somebody holds it and no other is
    asked for: two models used in turn are loaded in turn, and memory never holds both.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._holders: Counter[ModelKey] = Counter()
        self._loaded: tuple[ModelKey, Any] | None = None
        self._running: threading.Event | None = None
        self._released: deque[ModelKey] = deque()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self.loads = 0
        """How often a model was loaded, for the curious."""

    def hold(self, key: ModelKey) -> None:
        """Keep the model loaded, once it is, until `release`."""
        with self._lock:
            self._holders[key] += 1

    def release(self, key: ModelKey) -> None:
        """Give up one hold; the last one unloads the model when its turn is over.

        Finalizers call it, and the garbage collector runs them in the middle of anything, also of
        a submit: so no lock is taken here (deque.append and SimpleQueue.put are reentrant).
        """
        self._released.append(key)
        self._wake.put(True)

    def _give_up(self) -> None:
        """Carry out releases soon, on a thread of its own, until `close`."""
        while self._wake.get():
            with self._lock:
                self._settle()

    def _settle(self) -> None:
        """Count what was released; unload what nobody holds, after the turns that were asked for.

        Needs the lock.
        """
        unheld = False
        while self._released:
            key = self._released.popleft()
            self._holders[key] -= 1
            unheld = unheld or self._holders[key] <= 0
        if unheld and self._executor is not None:
            try:
                self._executor.submit(self._unload_unheld)
            except RuntimeError:  # the interpreter is shutting down: `close` unloads
                return

    async def turn(self, key: ModelKey, work: Callable[[Session], T], emit: Emit) -> T:
        """Run `work` on the engine's thread with the model loaded.

        Cancelling the caller stops the generation at its next token or prompt batch.

        Args:
            key: the model.
            work: called with the session; may raise.
            emit: called on the caller's event loop, in order.

        Raises:
            ModelError: llama.cpp is missing or the model cannot be loaded; whatever `work` raises.
        """
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        started = threading.Event()

        def report(kind: str, text: str) -> None:
            try:
                loop.call_soon_threadsafe(emit, kind, text)
            except RuntimeError as error:  # the loop was closed without a cancel
                raise Stopped from error

        def job() -> T:
            started.set()
            if stop.is_set():
                raise Stopped
            self._running = stop
            try:
                return work(_LlamaSession(self._server(key), stop, report))
            finally:
                self._running = None

        future = self._submit(job)
        try:
            return await _wait(future, started, emit)
        except Stopped as error:
            raise ModelUnavailableError(
                "The embedded model was shut down in mid-answer."
            ) from error
        finally:
            stop.set()

    def has(self, key: ModelKey) -> bool:
        """Whether this model is loaded now."""
        loaded = self._loaded
        return loaded is not None and loaded[0] == key

    def close(self) -> None:
        """Stop what runs, end the thread and unload; the next turn starts anew."""
        with self._lock:
            executor, self._executor = self._executor, None
        if self._running is not None:
            self._running.set()
        if executor is not None:
            self._wake.put(False)
            executor.shutdown(wait=True, cancel_futures=True)
        self._loaded = None

    def _submit(self, job: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="llama")
                threading.Thread(target=self._give_up, name="llama-release", daemon=True).start()
                atexit.register(self.close)  # before the interpreter takes the native objects apart
            self._settle()
            return self._executor.submit(job)

    def _server(self, key: ModelKey) -> Any:
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # frees the other model before this one takes memory
            self._loaded = (key, _load(key))
            self.loads += 1
        return self._loaded[1]

    def _unload_unheld(self) -> None:
        with self._lock:
            held = self._loaded is not None and self._holders[self._loaded[0]] > 0
        if not held:
            self._loaded = None


async def _wait(future: Future[T], started: threading.Event, emit: Emit) -> T:
    """Await a job of the thread; while it only waits for its turn, say so to the idle limit."""
    waiting = asyncio.wrap_future(future)
    try:
        while not started.is_set():
            done, _ = await asyncio.wait({waiting}, timeout=QUEUE_BEAT)
            if done:
                break
            emit("call", "")
        return await waiting
    finally:
        waiting.cancel()


def check_installed() -> None:
    """Raise ModelError when the package that holds llama.cpp is not here; loads nothing."""
    if importlib.util.find_spec(_LLAMA) is None:
        raise ModelError(
            f"The embedded model needs the package {_LLAMA}.",
            cure=f"Install it beside deerflow (uv pip install {_LLAMA}), or configure another one.",
        )


def _load(key: ModelKey) -> Any:
    check_installed()
    try:
        llama = importlib.import_module(_LLAMA)
    except ImportError as error:
        raise ModelError(
            f"The package {_LLAMA} is here but does not start on this machine.",
            cure="Configure another model.",
        ) from error
    params = llama.CommonParams()
    params.model.path = str(key.path)
    params.n_ctx, params.n_parallel = key.n_ctx, 1
    params.n_batch = params.n_ubatch = min(BATCH, key.n_ctx)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = key.threads
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.verbosity = -1  # llama.cpp writes its log to stdout and stderr otherwise
    params.fit_params = False
    params.warmup = False
    params.ui = False
    # The library always starts an HTTP listener: give it a socket that nobody can reach and a key.
    params.n_threads_http, params.endpoint_metrics = 1, True
    params.api_keys = [secrets.token_urlsafe()]
    private = tempfile.mkdtemp(prefix="df-")
    params.hostnames = [f"{private}/s.sock"]
    try:
        server = llama.Server(params)
        server.handle_metrics()  # its thread runs: freed before that, it would never end
    except RuntimeError as error:
        raise ModelError(
            f"The model file {key.path.name} could not be loaded: it is damaged, or not a model "
            "that llama.cpp knows.",
            cure="Fetch it again with `deerflow models pull`.",
        ) from error
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return server


class _LlamaSession:
    """A turn's view of the loaded server."""

    def __init__(self, server: Any, stop: threading.Event, report: Emit) -> None:
        self._server = server
        self._stop = stop
        self._report = report

    def chat(
        self,
        messages: list[dict[str, str]],
        *,
        max_tokens: int,
        kind: str,
        grammar: str | None = None,
        **sampling: Any,
    ) -> Completion:
        """As `Session.chat`."""
        request: dict[str, Any] = {
            **sampling,
            "messages": messages,
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        if grammar is not None:
            request["grammar"] = grammar
        result = Completion()
        failure: list[BaseException] = []

        def take(chunk: dict[str, Any]) -> bool:
            # llama.cpp swallows what a callback raises, so it is carried out by hand.
            if self._stop.is_set():
                failure.append(Stopped())
                return True
            try:
                self._take(chunk, kind, result)
            except (ModelError, Stopped) as error:
                failure.append(error)
                return True
            return False

        self._server.handle_chat_completions(request, take)
        if failure:
            raise failure[0]
        return result

    def say(self, kind: str, text: str) -> None:
        """As `Session.say`."""
        self._report(kind, text)

    def _take(self, chunk: dict[str, Any], kind: str, result: Completion) -> None:
        if "error" in chunk:
            raise _refusal(chunk["error"])
        usage = chunk.get("usage")
        if usage:
            result.input_tokens = usage.get("prompt_tokens", 0)
            result.output_tokens = usage.get("completion_tokens", 0)
            result.cached_tokens = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        if "prompt_progress" in chunk:
            self._report("call", "")  # a long prompt is work, not silence
        for choice in chunk.get("choices", ()):
            delta = choice.get("delta", {})
            if thought := delta.get("reasoning_content"):
                self._report("reasoning", thought)
            if text := delta.get("content"):
                result.text += text
                self._report(kind, text)
            if choice.get("finish_reason") == "length":
                result.cut = True


def _refusal(error: dict[str, Any]) -> ModelError:
    if error.get("type") == "exceed_context_size_error":
        return ContextOverflowError(
            f"The request has {error.get('n_prompt_tokens')} tokens; the window of the embedded "
            f"model is {error.get('n_ctx')}.",
            cure="Shorten the request, or set a larger context_window.",
        )
    return ModelRequestError(f"llama.cpp refuses the request: {error.get('message', 'unknown')}.")
