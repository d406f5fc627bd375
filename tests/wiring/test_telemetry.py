"""Telemetry of a whole process: spans reach a collector, and nothing is loaded when it is off."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from fakes.opened import opened_runtime

CALL = {"name": "calculator", "args": {"expression": "6*7"}}
SCRIPT = [{"calls": [CALL]}, {"text": "It is 42.", "usage": {"input": 100, "output": 20}}]


class Collector:
    """An OTLP/HTTP receiver."""

    def __init__(self) -> None:
        self.url = ""
        self.paths: list[str] = []
        self.spans: list[Any] = []

    async def take(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        body = ExportTraceServiceRequest.FromString(await request.read())
        for resource in body.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response()


@asynccontextmanager
async def collector() -> AsyncGenerator[Collector]:
    found = Collector()
    app = web.Application()
    app.router.add_post("/{path:.*}", found.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    found.url = f"http://{host}:{port}"
    try:
        yield found
    finally:
        await runner.cleanup()


async def test_spans_of_a_run_reach_the_collector_before_the_process_ends(tmp_path: Path) -> None:
    async with collector() as found:
        telemetry = {"otlp_endpoint": found.url}
        async with opened_runtime(SCRIPT, tmp_path, telemetry=telemetry) as served:
            assert (await served.finish("What is 6*7?")).status == "success"

    names = sorted(span.name for span in found.spans)
    assert names == [
        "chat scripted",
        "chat scripted",
        "execute_tool calculator",
        "invoke_agent lead",
    ]
    assert len({span.trace_id for span in found.spans}) == 1
    assert set(found.paths) == {"/v1/traces"}
    providers = {
        attribute.value.string_value
        for span in found.spans
        for attribute in span.attributes
        if attribute.key == "gen_ai.provider.name"
    }
    assert len(providers) == 1


async def test_figures_of_a_run_are_counted(tmp_path: Path) -> None:
    async with opened_runtime(SCRIPT, tmp_path, database={"backend": "sqlite"}) as served:
        await served.finish("What is 6*7?")
        await served.storage.flush()
        await asyncio.sleep(0)
        metrics = served.runtime.metrics

    assert metrics is not None
    assert metrics.executions == {"model": 2, "tools": 1}
    assert metrics.durations.keys() == {"queued", "run", "model", "tool"}
    assert metrics.used == {"scripted": 120}
    assert (metrics.checkpoint_bytes or 0) > 0


async def test_switched_off_nothing_is_counted(tmp_path: Path) -> None:
    async with opened_runtime(["hello"], tmp_path, telemetry={"metrics": False}) as served:
        assert served.runtime.metrics is None


def test_a_harness_without_telemetry_loads_none_of_its_libraries(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from fakes.harness import loaded, scripted_config
from deerflow.wiring.harness import open_harness
async def main():
    async with open_harness(loaded(scripted_config([]), Path(sys.argv[1])), {}):
        pass
asyncio.run(main())
print([name for name in ("prometheus_client", "deerflow.telemetry.spans") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"
