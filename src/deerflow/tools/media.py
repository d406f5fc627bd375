"""What kind of file some bytes are, by their first ones."""

from __future__ import annotations

from typing import Any

import filetype

_filetype: Any = filetype  # the package has no types


def media_type(data: bytes) -> str:
    """Media type such as "image/png", "" when unknown."""
    kind = _filetype.guess(data[:8192])
    return "" if kind is None else str(kind.mime)
