"""Exit codes, and the one way in which a command ends."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NoReturn

import typer

from deerflow.cli import output
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
    if result.error and result.error.get("code") == ConfigError.code:
        return BAD_USAGE
    return _BY_STATUS.get(result.status, FAILED)


def fail(error: DeerFlowError) -> int:
    """Print one clear message on stderr; gives the exit code."""
    if isinstance(error, ConfigError):
        text = "\n".join(f"  {problem}" for problem in error.problems)
        output.note(f"deerflow: the configuration has problems:\n{text}")
        if error.cure:
            output.note(error.cure)
    else:
        output.note(f"deerflow: {error}")
    return BAD_USAGE if isinstance(error, UsageError) else FAILED


def finish(work: Callable[[], int]) -> NoReturn:
    """Do a command's work and end with its exit code."""
    raise typer.Exit(guarded(work))


def guarded(work: Callable[[], int]) -> int:
    """Exit code of a command's work; errors become one message.

    A reader of the output that has gone away (`| head -1`) ends the command quietly.
    """
    try:
        code = work()
        output.flush()
    except DeerFlowError as error:
        return fail(error)
    except BrokenPipeError:
        output.discard()
        return STOPPED
    except OSError as error:
        output.discard()
        full = error.errno == errno.ENOSPC
        reason = "no space is left" if full else error.strerror or "input or output failed"
        output.note(f"deerflow: {reason} ({error.filename or 'standard output'}).")
        return FAILED
    return code
