"""`python -m deerflow`, and the `deerflow` command: a quiet end first, then everything else."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

FAILED = 1
STOPPED = 130
"""Both as in `cli.exits`, which is not loaded yet."""


def main() -> NoReturn:
    """Run the command line and end the process.

    The interpreter's own tidying is left out: with LangChain's modules it takes as long as many a
    run, and whatever must be saved or released has been by now.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from deerflow.gateway.commands import main as run  # noqa: PLC0415  (after the signals are in hand)
    from deerflow.gateway.postponed import postpone  # noqa: PLC0415

    postpone()

    try:
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else FAILED if end.code else 0
    os._exit(_flushed(code))


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return STOPPED
    except OSError:
        return code or FAILED
    return code


def _leave(number: int, frame: FrameType | None) -> None:
    """End without a traceback while modules are still being loaded; nothing has begun."""
    os._exit(STOPPED)


if __name__ == "__main__":
    main()
