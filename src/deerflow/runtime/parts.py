"""What a run is made from, and a run on its way from admission to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl

from deerflow.agent.context import RunContext
from deerflow.config.schema import AppConfig
from deerflow.models.protocol import Catalog
from deerflow.runtime.changes import Beginning
from deerflow.sandbox.protocol import SandboxProvider, ThreadFolders
from deerflow.storage.protocol import Storage, ThreadRow
from deerflow.subagents.batch_job import Executor

Graph = CompiledStateGraph[Any, Any, Any, Any]
Folders = Callable[[str, str], ThreadFolders]


class Lead(Protocol):
    """What admission asks of who leads: see `deerflow.lead.profiles.LeadProfile`."""

    @property
    def model(self) -> str | None:
        """Configured name or None."""
        ...

    @property
    def skills(self) -> tuple[str, ...] | None:
        """Names it may use, None for all."""
        ...

    @property
    def max_turns(self) -> int | None:
        """Model turns or None."""
        ...


@dataclass(slots=True)
class RunParts:
    """What the runner drives.

    `config` and `catalog` are others after the configuration was read again; whoever needs them
    asks here each time.

    Attributes:
        config: the whole configuration (max_turns, uploads).
        storage: the stores.
        provider: the sandbox provider.
        catalog: the models.
        agent: compiled graph for a run.
        folders: host folders for (user_id, thread_key).
        usage: usage of a run read off its context, for the run row and event.
        profile: who leads, for (user_id, name of a custom agent or "").
        children: who runs children beside the lead's graph; None where nobody does.
    """

    config: AppConfig
    storage: Storage
    provider: SandboxProvider
    catalog: Catalog
    agent: Callable[[RunContext], Awaitable[Graph]]
    folders: Folders
    usage: Callable[[RunContext], dict[str, Any]]
    profile: Callable[[str, str], Awaitable[Lead]]
    children: Callable[[], Executor] | None = None


@dataclass(slots=True)
class Job:
    """A run between its admission and its end.

    Attributes:
        thread: its thread.
        context: what the graph is given.
        input: for the graph; None continues from the checkpoint.
        first: seq before its first event.
        uploads: host files still to be copied.
        before: files in outputs when it began, see `scan_outputs`.
        after_death: whether the run before it, or its own first attempt, was cut off by a kill.
        fresh: whether the thread holds nothing yet: there is nothing to take up.
        checkpoint_id: where the input forks off, None for the thread's newest checkpoint.
        control: asks the graph to stop at a step border.
        shared: whether another worker can go on with it: a failing database does not end it.
        left: whether this process gives it up; the row is then not its own to close.
        beginning: files when it began, to tell afterwards what it changed; of shared jobs alone.
    """

    thread: ThreadRow
    context: RunContext
    input: dict[str, Any] | None
    first: int
    uploads: tuple[Path, ...] = ()
    before: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    after_death: bool = False
    fresh: bool = False
    checkpoint_id: str | None = None
    control: RunControl | None = None
    shared: bool = False
    left: bool = False
    beginning: Beginning | None = None
