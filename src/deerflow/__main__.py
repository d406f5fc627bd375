"""`python -m deerflow`, and the `deerflow` command: a quiet end first, then everything else."""

from __future__ import annotations

import os
import signal
from types import FrameType

STOPPED = 130
"""As in `cli.exits`, which is not loaded yet."""


def _leave(number: int, frame: FrameType | None) -> None:
    """End without a traceback while modules are still being loaded; nothing has begun."""
    os._exit(STOPPED)


def main() -> None:
    """Run the command line; ends the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from deerflow.cli.app import main as run  # noqa: PLC0415  (after the signals are in hand)

    run()


if __name__ == "__main__":
    main()
