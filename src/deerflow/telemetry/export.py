"""Who takes spans: a collector that the configuration names, or what the program has set up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import Tracer

from deerflow import __version__
from deerflow.errors import ConfigError

NAME = "deerflow"
TRACES = "/v1/traces"
"""Path below a collector's address, when the address has none (OTLP/HTTP)."""
SECONDS = 5.0
"""For one delivery; at the end of the process the last spans are waited for that long as well."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """An open way for spans.

    Attributes:
        tracer: makes them.
        close: delivers the last ones; may block for `SECONDS`.
    """

    tracer: Tracer
    close: Callable[[], None]


def open_tracing(endpoint: str | None) -> Tracing | None:
    """Tracing to a collector; else by the provider of the program around us; else None.

    Args:
        endpoint: address of an OTLP/HTTP collector, for example http://127.0.0.1:4318.

    Raises:
        ConfigError: the address is none, or the SDK is not installed.
    """
    if endpoint:
        return _to(endpoint)
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Tracing(provider.get_tracer(NAME, __version__), _nothing)


def _to(endpoint: str) -> Tracing:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            [f"telemetry.otlp_endpoint: {endpoint!r} is no address."],
            cure="Give one of OTLP over HTTP, for example http://127.0.0.1:4318.",
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415  (extra)
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  (extra)
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  (extra)
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  (extra)
    except ImportError as error:
        raise ConfigError(
            ["telemetry.otlp_endpoint is set, but the SDK of OpenTelemetry is not installed."],
            cure="Install deerflow[telemetry], or unset the key.",
        ) from error
    address = endpoint if parts.path.strip("/") else endpoint.rstrip("/") + TRACES
    resource = Resource.create({"service.name": NAME, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(address, timeout=SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider.get_tracer(NAME, __version__), provider.shutdown)


def _nothing() -> None:
    """A foreign provider is closed by who has made it."""
