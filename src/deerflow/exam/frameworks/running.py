"""Sits an exam in another framework: its program, in its environment, with a paper without keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from deerflow.errors import SandboxError
from deerflow.exam.contract import ResultFile, check_schema, load_results, replace_file
from deerflow.exam.dataset import Dataset, parse, read
from deerflow.exam.frameworks.papers import paper_of
from deerflow.exam.frameworks.processes import Told, last_lines, run
from deerflow.exam.frameworks.registry import Framework

RESULTS = "results.json"
PAPER = "paper.json"
LOG = "run.log"
KEY = "OPENAI_API_KEY"
NO_KEY = "none"
"""Sent to endpoints that ask for none: clients refuse to start without one."""

PASSED = (
    "PATH", "LANG", "LC_ALL", "TMPDIR", "TZ",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
"""What a program sees of our environment."""

QUIET: Mapping[str, str] = MappingProxyType(
    {
        "OTEL_SDK_DISABLED": "true",
        "LANGSMITH_TRACING": "false",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_TRACKING": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "DO_NOT_TRACK": "1",
    }
)
"""Nothing but the endpoint hears of an exam."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        base_url: with its version, e.g. "http://127.0.0.1:8000/v1".
        model: name of the model there.
        key: "" when it asks for none.
    """

    base_url: str
    model: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a program runs.

    Attributes:
        python: an interpreter that has the framework.
        home: home folder of the process.
        environ: ours; only what PASSED names reaches the program.
        out: folder of results, paper and log.
    """

    python: Path
    home: Path
    environ: Mapping[str, str]
    out: Path


async def sit_elsewhere(
    framework: Framework,
    seat: Seat,
    dataset: Dataset,
    endpoint: Endpoint,
    *,
    workers: int,
    told: Told,
) -> ResultFile:
    """Let a framework's program answer every question.

    Args:
        framework: whose program.
        seat: where it runs.
        dataset: the questions; keys stay here.
        endpoint: who answers.
        workers: questions at once.
        told: hears a line for each ended question.

    Returns:
        The results, which are in `out` as well.

    Raises:
        SandboxError: the program failed; the log has its words.
        UsageError: what it wrote breaks the contract.
        StorageError: the folder cannot be written.
    """
    paper, log, results = (seat.out / name for name in (PAPER, LOG, RESULTS))
    text = json.dumps(paper_of(dataset, framework), ensure_ascii=False, indent=1)
    await asyncio.to_thread(replace_file, paper, text.encode("utf-8", "backslashreplace"))
    await asyncio.to_thread(results.unlink, missing_ok=True)
    command = [
        *(str(seat.python), "-B", str(framework.program)),
        *("--paper", str(paper), "--out", str(seat.out)),
        *("--base-url", endpoint.base_url, "--model", endpoint.model, "--workers", str(workers)),
    ]
    environ = {name: seat.environ[name] for name in PASSED if name in seat.environ}
    environ |= {**QUIET, "HOME": str(seat.home), KEY: endpoint.key or NO_KEY}
    code = await run(command, environ, log, told)
    if code:
        said = await asyncio.to_thread(last_lines, log)
        raise SandboxError(
            f"The program of {framework.title} ended with {code}: {said}", cure=f"See {log}."
        )
    return await asyncio.to_thread(_checked, results)


def _checked(path: Path) -> ResultFile:
    document = parse(read(path, "result file"), path)
    check_schema(document)
    return load_results(document)
