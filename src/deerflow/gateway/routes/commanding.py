"""Commands of the agent protocol: what each does, and how it answers."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any, cast

from pydantic import ValidationError

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.gateway.deps import Caller, Gateway
from deerflow.gateway.routes.bodies import RunBody
from deerflow.gateway.routes.running import Found, submit
from deerflow.gateway.wire import LEAD, values_dict
from deerflow.runtime.checks import no_thread
from deerflow.storage.protocol import ThreadRow

FRESH_SECONDS = 30.0
"""For so long a run that a command has started is shown from its beginning to who follows next."""
MOST_FRESH = 10_000


def failed(ident: int | None, code: str, message: str) -> dict[str, Any]:
    """The answer to a command that was not carried out."""
    return {"type": "error", "id": ident, "error": code, "message": message}


class Freshly:
    """Runs that commands of this process have started, for streams that are opened just after.

    A run may have ended before its starter follows the thread; the stream then begins with it. One
    watcher of the run's life is shown that, not a second one: it would take the end of this run
    for the end of the next.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._watched: OrderedDict[str, str] = OrderedDict()

    def began(self, thread_key: str, run_id: str) -> None:
        """A command has started a run."""
        self._runs[thread_key] = (run_id, time.monotonic())
        self._runs.move_to_end(thread_key)
        while len(self._runs) > MOST_FRESH:
            self._watched.pop(self._runs.popitem(last=False)[0], None)

    def run_of(self, thread_key: str, *, watch: bool) -> str | None:
        """The run that a new stream begins with.

        Args:
            thread_key: the thread.
            watch: it follows nothing but the run's life.
        """
        run_id, at = self._runs.get(thread_key, ("", 0.0))
        if not run_id or time.monotonic() - at > FRESH_SECONDS:
            return None
        if watch and self._watched.get(thread_key) == run_id:
            return None
        if watch:
            self._watched[thread_key] = run_id
        return run_id


class Commands:
    """Commands of one client for one thread.

    Args:
        gate: the gateway.
        who: the client.
        thread_id: of the thread, which `run.start` makes when it is not there.
    """

    def __init__(self, gate: Gateway, who: Caller, thread_id: str) -> None:
        self._gate = gate
        self._who = who
        self._thread_id = thread_id
        self._known = {
            "run.start": self._start,
            "input.respond": self._respond,
            "input.inject": self._inject,
            "state.get": self._state,
            "state.listCheckpoints": self._checkpoints,
            "state.fork": self._fork,
            "agent.getTree": self._tree,
        }

    async def carry_out(self, ident: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The command's answer.

        Raises:
            NotFoundError: thread, run, checkpoint or assistant are not there.
        """
        known = self._known.get(method)
        if known is None:
            code = "not_supported" if method.startswith("subscription.") else "unknown_command"
            return failed(ident, code, f"{method[:64]!r} is not served here.")
        try:
            result, meta = await known(params)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"]))
            return failed(ident, "invalid_argument", f"{place}: {problem['msg']}")
        except NotFoundError:
            raise
        except (UsageError, ConflictError) as error:
            return failed(ident, "invalid_argument", str(error))
        answer = {"type": "success", "id": ident, "result": result}
        return {**answer, "meta": meta} if meta else answer

    async def _start(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if "multitaskStrategy" in params:
            params = {"multitask_strategy": params["multitaskStrategy"], **params}
        return await self._begin(RunBody.model_validate(params))

    async def _respond(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        many = params.get("responses")
        entries = cast("list[Any]", many) if isinstance(many, list) else [params]
        answers: dict[str, Any] = {}
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("interrupt_id"), str):  # pyright: ignore[reportUnknownMemberType]
                raise UsageError("An answer is {interrupt_id, response}.")
            fields = cast("dict[str, Any]", entry)
            answers[fields["interrupt_id"]] = fields.get("response")
        await self._thread()
        given = {"command": {"resume": answers}, "config": params.get("config")}
        return await self._begin(RunBody.model_validate(given))

    async def _inject(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        await self._thread()
        given = {"input": {"messages": [params.get("message")]}, "multitask_strategy": "enqueue"}
        return await self._begin(RunBody.model_validate(given))

    async def _fork(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        await self._thread()
        result, meta = await self._begin(RunBody.model_validate(params))
        return {**result, "thread_id": self._thread_id}, meta

    async def _state(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        thread = await self._thread()
        found = await self._gate.runtime.histories.state(thread)
        values = values_dict(found, thread)
        keys = params.get("keys")
        if isinstance(keys, list):
            values = {key: value for key, value in values.items() if key in keys}
        result: dict[str, Any] = {"values": values}
        if found is not None:
            result["checkpoint"] = {"id": found.checkpoint_id}
        return result, {}

    async def _checkpoints(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        thread = await self._thread()
        limit, before = params.get("limit", 10), params.get("before")
        if not isinstance(limit, int) or not isinstance(before, str | None):
            raise UsageError("limit is a number, before the id of a checkpoint.")
        found = await self._gate.runtime.histories.history(thread, limit=limit, before=before)
        listed = [
            {
                "id": snapshot.checkpoint_id,
                "timestamp": snapshot.created_at,
                "step": snapshot.metadata.get("step", -1),
                "metadata": snapshot.metadata,
            }
            for snapshot in found
        ]
        return {"checkpoints": listed}, {}

    async def _tree(self, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        del params
        thread = await self._thread()
        status = {"busy": "running", "error": "failed"}.get(thread.status, "completed")
        if thread.status == "interrupted":
            status = "interrupted"
        return {"tree": {"namespace": [], "status": status, "graph_name": LEAD}}, {}

    async def _begin(self, given: RunBody) -> tuple[dict[str, Any], dict[str, Any]]:
        found: Found = await submit(self._gate, self._who, self._thread_id, given)
        freshly: Freshly = self._gate.extra.setdefault(Freshly, Freshly())
        freshly.began(found.thread.thread_key, found.run.run_id)
        meta = {"applied_through_seq": found.first} if found.first else {}
        return {"run_id": found.run.run_id}, meta

    async def _thread(self) -> ThreadRow:
        threads = self._gate.runtime.harness.storage.threads
        found = await threads.get(self._who.user_id, self._thread_id)
        if found is None:
            raise no_thread(self._thread_id)
        return found
