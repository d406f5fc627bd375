"""Bodies of requests as the LangGraph SDKs send them.

Unknown fields are left alone, so that newer clients are not refused; wrong types are.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from deerflow.errors import UsageError
from deerflow.runtime.submission import SubmitOptions
from deerflow.runtime.wire_runs import ClientRun

Json = dict[str, Any]
Names = Literal["*"] | list[str]
Ident = Annotated[str, Field(min_length=1, max_length=255)]
Count = Annotated[int, Field(ge=1, le=1000)]
Offset = Annotated[int, Field(ge=0, le=2**31)]


MOST_METADATA = 64 * 1024
"""Bytes of metadata as JSON: every listing carries it."""


def small(metadata: Json) -> Json:
    """Metadata that is not too large.

    Raises:
        ValueError: it is.
    """
    size = len(orjson.dumps(metadata))
    if size > MOST_METADATA:
        raise ValueError(f"metadata has {size:,} bytes, at most {MOST_METADATA:,} are kept")
    return metadata


Metadata = Annotated[Json, AfterValidator(small)]


class Body(BaseModel):
    """What bodies have in common."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _is_json(cls, given: Any) -> Any:
        """Refuse what has no JSON of its own, wherever it is: it could be neither kept nor told."""
        try:
            orjson.dumps(given)
        except TypeError as error:
            raise ValueError(f"{error}") from None
        return given


class RunBody(Body):
    """A run to be created."""

    assistant_id: str | None = Field(None, max_length=255)
    input: Json | list[Any] | str | None = None
    command: Json | None = None
    config: Json | None = None
    context: Json | None = None
    metadata: Metadata | None = None
    checkpoint: Json | None = None
    checkpoint_id: str | None = Field(None, max_length=255)
    checkpoint_during: bool | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    interrupt_before: Names | None = None
    interrupt_after: Names | None = None
    stream_mode: str | list[str] | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep", "complete", "continue"] | None = None
    multitask_strategy: Literal["reject", "enqueue", "interrupt", "rollback"] | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    webhook: str | None = Field(None, max_length=2048)
    after_seconds: float | None = None
    feedback_keys: list[str] | None = None
    strict_resume: bool | None = None

    def client_run(self) -> ClientRun:
        """The fields that decide what is executed.

        Raises:
            UsageError: static breakpoints, which this agent has none of.
        """
        if self.interrupt_before or self.interrupt_after:
            raise UsageError(
                "interrupt_before and interrupt_after are not served.",
                cure="Let tools ask for approval: guardrails in the configuration.",
            )
        return ClientRun(
            assistant_id=self.assistant_id,
            input=self.input,
            command={k: v for k, v in (self.command or {}).items() if v is not None} or None,
            config=self.config or {},
            context=self.context or {},
            checkpoint_id=self.checkpoint_id or checkpoint_id(self.config),
            checkpoint=self.checkpoint,
        )

    def options(self, *, key: str | None = None, interactive: bool = True) -> SubmitOptions:
        """How it is handed in.

        Args:
            key: the request's Idempotency-Key.
            interactive: whether somebody waits for it.
        """
        return SubmitOptions(
            strategy=self.multitask_strategy or "reject",
            metadata=self.metadata or {},
            after_seconds=self.after_seconds or 0.0,
            webhook=self.webhook,
            idempotency_key=key,
            priority=10 if interactive else 5,
            if_not_exists=self.if_not_exists or "create",
        )

    def thread_named(self) -> str | None:
        """The thread that a stateless request names in its configuration."""
        for place in (self.config or {}).get("configurable"), self.context:
            if isinstance(place, dict) and isinstance(place.get("thread_id"), str):  # pyright: ignore[reportUnknownMemberType]
                return str(place["thread_id"])  # pyright: ignore[reportUnknownArgumentType]
        return None


class StatelessBody(RunBody):
    """A run without a thread in its path."""

    thread_id: Ident | None = None

    def thread_named(self) -> str | None:
        """The thread that it names all the same."""
        return self.thread_id or super().thread_named()


class CancelBody(Body):
    """Runs to be stopped."""

    thread_id: Ident | None = None
    run_ids: list[Ident] | None = Field(None, max_length=1000)
    status: Literal["pending", "running", "all"] | None = None


class ThreadBody(Body):
    """A thread to be made."""

    thread_id: Ident | None = None
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    graph_id: str | None = None
    supersteps: list[Json] | None = None


class ThreadPatch(Body):
    """Metadata to be merged; null removes a key."""

    metadata: Metadata = Field(default_factory=dict)


class ThreadSearch(Body):
    """Which threads."""

    metadata: Json | None = None
    values: Json | None = None
    ids: list[Ident] | None = Field(None, max_length=1000)
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: Count = 10
    offset: Offset = 0
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = (
        "updated_at"
    )
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


class PruneBody(Body):
    """Threads to be pruned or deleted."""

    thread_ids: list[Ident] = Field(max_length=1000)
    strategy: Literal["delete", "keep_latest"] = "delete"


class StateBody(Body):
    """A change of a thread's state."""

    values: Json | list[Json] | None = None
    as_node: str | None = None
    checkpoint: Json | None = None
    checkpoint_id: str | None = None


class CheckpointBody(Body):
    """A state by its checkpoint."""

    checkpoint: Json = Field(default_factory=dict)
    subgraphs: bool = False


class HistoryBody(Body):
    """Which states."""

    limit: Count = 10
    before: str | Json | None = None
    metadata: Json | None = None
    checkpoint: Json | None = None


def checkpoint_id(place: str | Json | None) -> str | None:
    """The id in any of the forms in which clients refer to a state."""
    if place is None or isinstance(place, str):
        return place or None
    nested = place.get("configurable")
    found = place.get("checkpoint_id")
    if found is None and isinstance(nested, dict):
        found = nested.get("checkpoint_id")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return str(found) if found else None  # pyright: ignore[reportUnknownArgumentType]
