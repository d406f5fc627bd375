"""Log lines of a command: into a file below home, made when the first line is due."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

FILE = "deerflow.log"
_BYTES = 2_000_000
_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"


class _Quiet(RotatingFileHandler):
    """A log that cannot be written must not disturb the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def log_to_file(home: Path, level: str) -> Path:
    """Send log lines and Python's warnings to `deerflow.log` in home; the file's path.

    Args:
        home: DEER_FLOW_HOME.
        level: least severity of our own lines; those of libraries are logged from warning on.
    """
    path = home / FILE
    handler = _Quiet(path, maxBytes=_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.captureWarnings(capture=True)
    logging.getLogger().addHandler(handler)
    logging.getLogger("deerflow").setLevel(level.upper())
    return path
