"""Commands on the host as it is: only where the configuration says `sandbox.use: host`."""

from __future__ import annotations

from deerflow.sandbox.local import LocalProvider
from deerflow.sandbox.protocol import Level


class HostProvider(LocalProvider):
    """Isolates nothing; virtual paths, time limits and the end of all processes still hold."""

    levels: tuple[Level, ...] = ("host",)
