"""Exit codes, and the one way an error reaches the terminal."""

from __future__ import annotations

import sys

from deerflow.errors import ConfigError, DeerFlowError, UsageError
from deerflow.runtime.request import RunResult

ANSWERED = 0
FAILED = 1
BAD_USAGE = 2
WAITING = 3
LIMIT = 4
STOPPED = 130

_BY_OUTCOME = {
    "answered": ANSWERED,
    "empty": FAILED,
    "deliverable_missing": FAILED,
    "waiting_for_human": WAITING,
    "limit_reached": LIMIT,
}
_BY_STATUS = {"error": FAILED, "timeout": LIMIT, "cancelled": STOPPED, "interrupted": WAITING}


def exit_code(result: RunResult) -> int:
    """Exit code of a finished run."""
    if result.outcome is not None:
        return _BY_OUTCOME[result.outcome.kind]
    return _BY_STATUS.get(result.status, FAILED)


def fail(error: DeerFlowError) -> int:
    """Print one clear message on stderr; gives the exit code."""
    if isinstance(error, ConfigError):
        text = "\n".join(f"  {problem}" for problem in error.problems)
        print(f"deerflow: the configuration has problems:\n{text}", file=sys.stderr)
        if error.cure:
            print(error.cure, file=sys.stderr)
    else:
        print(f"deerflow: {error}", file=sys.stderr)
    return BAD_USAGE if isinstance(error, UsageError) else FAILED
