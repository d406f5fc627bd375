"""Opens the service of one process: the harness, and who executes runs that clients hand in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from deerflow.config.load import LoadedConfig
from deerflow.runtime.durable import DbosEngine
from deerflow.runtime.engine import Engine, InProcessEngine
from deerflow.runtime.heap import give_back
from deerflow.runtime.history import Histories
from deerflow.runtime.ledger_database import Place
from deerflow.runtime.parts import RunParts
from deerflow.runtime.retention import Retention
from deerflow.runtime.schedules import Scheduler
from deerflow.runtime.stopping import roll_back, take_back
from deerflow.runtime.submission import Submissions
from deerflow.runtime.supervisor import Duty, Supervisor, new_worker_id
from deerflow.runtime.worker import Worker
from deerflow.storage.sql.open import database_file
from deerflow.telemetry.inmemory import InMemoryMetrics
from deerflow.wiring.harness import Harness, open_harness
from deerflow.wiring.parts import Given
from deerflow.wiring.telemetry import count

LEDGER = "dbos.db"
"""Beside our own database: two writers in one file would wait for each other."""
EXPIRY_SECONDS = 5.0
WEBHOOK_SECONDS = 1.0
TIDY_SECONDS = 60.0
HEAP_SECONDS = 30.0
ROLLBACK_SECONDS = 1.0
RETENTION_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything of a serving process, open.

    Attributes:
        harness: models, tools, stores.
        engine: hands runs to executors.
        submissions: what clients do with runs.
        histories: states of threads.
        schedules: starts tasks at their times; refuses new ones when they are off.
        supervisor: looks after workers and their runs; None when this process executes nothing.
        metrics: figures of this process; None when they are switched off.
    """

    harness: Harness
    engine: Engine
    submissions: Submissions
    histories: Histories
    schedules: Scheduler
    supervisor: Supervisor | None
    metrics: InMemoryMetrics | None = None


@asynccontextmanager
async def open_runtime(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    *,
    execute: bool = True,
    given: Given | None = None,
    durable: bool = True,
) -> AsyncGenerator[Runtime]:
    """Open the service; closing it leaves unfinished runs to other workers or the next start.

    Args:
        loaded: the configuration.
        environ: keys of models are looked up in it.
        execute: whether this process executes runs, or only hands them on.
        given: what a caller in code brings.
        durable: hand runs out by the durable engine; without it they are tasks of this process,
            and so they are always when the database is in memory.

    Raises:
        ConfigError, StorageError: see `open_harness`.
    """
    async with AsyncExitStack() as stack:
        harness = await stack.enter_async_context(open_harness(loaded, environ, given=given))
        parts = harness.parts
        metrics = count(parts.config.telemetry, parts.storage)
        worker = _make_worker(parts) if execute else None
        engine = await _open_engine(loaded, parts, worker, durable=durable)
        stack.push_async_callback(engine.close)
        submissions = Submissions(parts, engine)
        schedules = Scheduler(parts.storage, submissions, parts.config.scheduler)
        supervisor = None
        if worker is not None:
            planned = schedules if parts.config.scheduler.enabled else None
            duties = _duties(parts, submissions, engine, planned)
            supervisor = Supervisor(parts.storage, worker, engine, parts.config.runtime, duties)
            await stack.enter_async_context(supervisor.open())
            if harness.memory is not None:
                await harness.memory.start()  # what an earlier process left is taken in as well
            stack.push_async_callback(engine.drain, 0)  # while the lease is still kept
        histories = Histories(parts)
        yield Runtime(harness, engine, submissions, histories, schedules, supervisor, metrics)


def _make_worker(parts: RunParts) -> Worker:
    limits = parts.config.runtime
    driver = None
    if limits.mode == "standard":
        from deerflow.runtime.standard import StandardDriver  # noqa: PLC0415  # its client is rare

        driver = StandardDriver(parts, limits.langgraph_url)
    return Worker(parts, new_worker_id(), roll_back=roll_back, driver=driver)


async def _open_engine(
    loaded: LoadedConfig, parts: RunParts, worker: Worker | None, *, durable: bool
) -> Engine:
    limits, database = parts.config.runtime, parts.config.database
    if not durable or parts.storage.kind == "memory":
        return InProcessEngine(
            parts.storage, worker, concurrent=limits.concurrent_runs, of_user=limits.user_runs
        )
    if parts.storage.kind == "postgres":
        schema = f"{database.postgres_schema}_dbos" if database.postgres_schema else "dbos"
        address = str(database.postgres_url)
    else:
        schema, file = "dbos", database_file(database, loaded.home).with_name(LEDGER)
        address = f"sqlite:///{file.absolute()}"
    place = Place(
        address,
        schema,
        database.pool_size,
        worker_runs=limits.concurrent_runs,
        user_runs=limits.user_runs,
    )
    engine = DbosEngine(parts.storage, worker, place)
    await engine.open()
    return engine


def _duties(
    parts: RunParts, submissions: Submissions, engine: Engine, schedules: Scheduler | None
) -> tuple[Duty, ...]:
    duties = [
        Duty("retention", Retention(parts).sweep, RETENTION_SECONDS),
        Duty("rollbacks", partial(take_back, engine, parts), ROLLBACK_SECONDS),
        Duty("approvals", submissions.answers.expire, EXPIRY_SECONDS),
        Duty("webhooks", submissions.webhooks.tick, WEBHOOK_SECONDS),
        Duty("heap", give_back, HEAP_SECONDS),
    ]
    if schedules is not None:
        duties.append(Duty("schedules", schedules.look, 0.0))  # it waits by itself
    if isinstance(engine, DbosEngine):
        duties.append(Duty("ledger", engine.tidy, TIDY_SECONDS))
    return tuple(duties)
