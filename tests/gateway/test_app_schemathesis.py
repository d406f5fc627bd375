"""Requests made of the OpenAPI document: none is answered by a 5xx, none hangs, answers fit.

Every route of the document is asked, half of the requests with ids of things that
exist. The long form draws for ten minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import response_schema_conformance

from deerflow.config.load import load_config
from fakes.gateway import Served, gateway, listening, write_config

SECONDS = 20
"""In which an answer must begin, and one that does not last must be whole."""
LASTING = ("/wait", "/join", "/stream", "/stream/events")
"""Ends of paths whose answer may last as long as a run, or for ever; its beginning counts."""
CHECKS = [not_a_server_error, response_schema_conformance]
EVENTS = "text/event-stream"

# The service runs in this process and draws pauses from `random` while Hypothesis draws requests.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)


@dataclass
class Fuzzer:
    """Sends drawn requests to a served application and remembers what was wrong.

    Attributes:
        url: of the application.
        document: its OpenAPI document.
        known: ids of things that exist, by name of the path parameter.
        problems: by "METHOD path", the first of each kind.
        asked: number of requests by "METHOD path".
    """

    url: str
    document: dict[str, Any]
    known: dict[str, str]
    problems: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self._schema = schemathesis.openapi.from_dict(self.document)
        self._session = requests.Session()

    def operations(self) -> Iterator[Any]:
        for found in self._schema.get_all_operations():
            yield found.ok()

    def round(self, examples: int, *, until: float | None = None, seed: int | None = None) -> None:
        """Ask every operation; `seed` None draws the same each time."""
        for operation in self.operations():
            if until is not None and time.monotonic() > until:
                return
            self._ask(operation, examples, fresh=seed is not None)

    def _ask(self, operation: Any, examples: int, *, fresh: bool) -> None:
        name = f"{operation.method.upper()} {operation.path}"
        modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
        drawn = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

        @settings(
            max_examples=examples,
            derandomize=not fresh,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            deadline=None,
            database=None,
        )
        @given(case=drawn, real=st.booleans())
        def ask(case: Any, real: bool) -> None:
            if real and isinstance(case.path_parameters, dict):
                fitting = {k: v for k, v in self.known.items() if k in case.path_parameters}
                case.path_parameters.update(fitting)
            self._send(name, case)

        ask()

    def _send(self, name: str, case: Any) -> None:
        self.asked[name] = self.asked.get(name, 0) + 1
        sent = case.as_transport_kwargs(base_url=self.url)
        try:
            with self._session.request(**sent, stream=True, timeout=SECONDS) as answer:
                self._judge(name, case, answer)
        except requests.Timeout:
            self._note(name, case, f"no answer within {SECONDS} s")
        except requests.RequestException as error:
            if not _impossible(error):
                self._note(name, case, repr(error))

    def _judge(self, name: str, case: Any, answer: requests.Response) -> None:
        lasts = name.endswith(LASTING) or answer.headers.get("content-type", "").startswith(EVENTS)
        if lasts and answer.status_code < 400:
            return
        if answer.status_code >= 500:
            self._note(name, case, f"{answer.status_code} {answer.text[:300]}")
            return
        answer.content  # noqa: B018  (read before the connection is given back)
        checked = schemathesis.Response.from_requests(answer, verify=False)
        try:
            case.validate_response(checked, checks=CHECKS)
        except (Failure, FailureGroup) as error:
            self._note(name, case, str(error)[:600])

    def _note(self, name: str, case: Any, what: str) -> None:
        self.problems.setdefault(name, f"{what}\n    {case.as_curl_command()[:600]}")


def _impossible(error: requests.RequestException) -> bool:
    """The client could not even write it: header values with line ends and the like."""
    return isinstance(error, requests.exceptions.InvalidHeader | requests.exceptions.InvalidURL)


async def known(served: Served) -> dict[str, str]:
    """Things that exist: a thread with a run."""
    body = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}
    made = await served.client.post("/api/threads", json={"thread_id": "known"})
    assert made.status_code == 200
    await served.client.post("/api/threads/known/runs/wait", json=body)
    runs = (await served.client.get("/api/threads/known/runs")).json()
    return {"thread_id": "known", "run_id": runs[0]["run_id"], "assistant_id": "lead_agent"}


async def fuzz(home: Path, work: Any) -> Fuzzer:
    """Serve and let `work(fuzzer)` ask, in a thread."""
    script = [{"text": "Hello.", "times": 1_000_000}]
    file = write_config(home, script, database={"backend": "memory"})  # a reload finds it again
    config = load_config(file, environ={"DEER_FLOW_HOME": str(home)}, cwd=home)
    async with gateway(home, config=config) as served, listening(served.app) as url:
        fuzzer = Fuzzer(url, served.app.openapi(), await known(served))
        await asyncio.to_thread(work, fuzzer)
    return fuzzer


def report(fuzzer: Fuzzer) -> str:
    return "\n".join(f"{name}: {what}" for name, what in sorted(fuzzer.problems.items()))


@pytest.mark.timeout(300)
async def test_drawn_requests_are_answered_as_the_document_says(tmp_path: Path) -> None:
    fuzzer = await fuzz(tmp_path, lambda fuzzer: fuzzer.round(3))

    assert len(fuzzer.asked) > 100
    assert fuzzer.problems == {}, report(fuzzer)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_ten_minutes_of_drawn_requests(tmp_path: Path) -> None:
    def work(fuzzer: Fuzzer) -> None:
        until = time.monotonic() + 600
        number = 0
        while time.monotonic() < until:
            number += 1
            fuzzer.round(10, until=until, seed=number)

    fuzzer = await fuzz(tmp_path, work)

    assert len(fuzzer.asked) > 100
    assert fuzzer.problems == {}, report(fuzzer)
    print(f"{sum(fuzzer.asked.values())} requests to {len(fuzzer.asked)} operations")
