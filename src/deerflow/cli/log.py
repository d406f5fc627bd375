"""Log lines of a command: into a file below home, made when the first line is due."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

FILE = "deerflow.log"
_BYTES = 2_000_000
_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"


class _Quiet(RotatingFileHandler):
    """A log that cannot be written must not disturb the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


@contextmanager
def log_to_file(home: Path, level: str) -> Generator[Path]:
    """Send log lines and Python's warnings to `deerflow.log` in home while inside; its path.

    Args:
        home: DEER_FLOW_HOME.
        level: least severity of our own lines; those of libraries are logged from warning on.
    """
    path = home / FILE
    handler = _Quiet(path, maxBytes=_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter(_FORMAT))
    root, own = logging.getLogger(), logging.getLogger("deerflow")
    before = own.level
    logging.captureWarnings(capture=True)
    root.addHandler(handler)
    own.setLevel(level.upper())
    try:
        yield path
    finally:
        own.setLevel(before)
        root.removeHandler(handler)
        logging.captureWarnings(capture=False)
        handler.close()
