"""Figures and spans of a process, as the section `telemetry` wants them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from deerflow.config.storage import TelemetryConfig
from deerflow.errors import NotFoundError
from deerflow.runtime.parts import RunParts
from deerflow.storage.protocol import Storage
from deerflow.telemetry.inmemory import InMemoryMetrics
from deerflow.telemetry.observer import Observer

if TYPE_CHECKING:
    from deerflow.telemetry.export import Tracing


def count(config: TelemetryConfig, storage: Storage) -> InMemoryMetrics | None:
    """Figures of what this process commits from now on; None when `telemetry.metrics` is off."""
    if not config.metrics:
        return None
    metrics = InMemoryMetrics()
    storage.listen(Observer(metrics))
    return metrics


@asynccontextmanager
async def tracing(config: TelemetryConfig) -> AsyncGenerator[Tracing | None]:
    """Where spans go; entered before the storage is opened, so that its last commits are told.

    Nothing is loaded when no collector is configured and the program around us has no tracing.

    Raises:
        ConfigError: see `open_tracing`.
    """
    if not config.otlp_endpoint and "opentelemetry.trace" not in sys.modules:
        yield None
        return
    from deerflow.telemetry.export import open_tracing  # noqa: PLC0415  (50 ms; the SDK: more)

    found = await asyncio.to_thread(open_tracing, config.otlp_endpoint)
    try:
        yield found
    finally:
        if found is not None:
            await asyncio.to_thread(found.close)


@asynccontextmanager
async def traced(found: Tracing | None, parts: RunParts) -> AsyncGenerator[None]:
    """Spans of what is committed meanwhile; those of unfinished runs end with it."""
    if found is None:
        yield
        return
    from deerflow.telemetry.spans import Spans  # noqa: PLC0415  (see `tracing`)

    def provider(model: str) -> str:
        try:
            return parts.catalog.spec(model).provider
        except NotFoundError:  # it was taken out of the configuration meanwhile
            return "unknown"

    spans = Spans(found.tracer, provider)
    parts.storage.listen(spans)
    try:
        yield
    finally:
        await parts.storage.flush()
        await asyncio.sleep(0)  # what the writer has posted to this loop
        spans.close()
