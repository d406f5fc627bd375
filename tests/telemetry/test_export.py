"""Where spans go."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deerflow.errors import ConfigError
from deerflow.telemetry.export import open_tracing


def test_without_an_address_and_a_foreign_provider_there_is_none() -> None:
    assert open_tracing(None) is None


@pytest.mark.parametrize("endpoint", ["collector:4318", "grpc://collector:4317", "http://"])
def test_an_address_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"telemetry\.otlp_endpoint"):
        open_tracing(endpoint)


def test_a_provider_of_the_program_around_us_is_used() -> None:
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from deerflow.telemetry.export import open_tracing
trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
with open_tracing(None).tracer.start_as_current_span("x") as span:
    print(span.is_recording())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True\n"


def test_without_the_sdk_the_cure_is_named() -> None:
    code = """
import sys
sys.modules["opentelemetry.sdk"] = None
from deerflow.errors import ConfigError
from deerflow.telemetry.export import open_tracing
try:
    open_tracing("http://127.0.0.1:4318")
except ConfigError as error:
    print(error.cure)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "deerflow[telemetry]" in done.stdout
