"""Ranges of bytes that a request asks for (RFC 9110, section 14)."""

from __future__ import annotations

import re

from fastapi import HTTPException

_ONE = re.compile(r"bytes=\s*([0-9]{0,19})\s*-\s*([0-9]{0,19})\s*", re.IGNORECASE)


def asked_range(header: str | None, size: int) -> range | None:
    """The bytes that a Range header names; None for all: no header, several ranges, nonsense.

    Args:
        header: as it was sent.
        size: bytes of the whole.

    Raises:
        HTTPException: 416, none of the bytes are there.
    """
    found = _ONE.fullmatch(header or "")
    if found is None or not (found[1] or found[2]):
        return None
    if found[1]:
        first = int(found[1])
        last = min(int(found[2]), size - 1) if found[2] else size - 1
        if found[2] and int(found[2]) < first:
            return None
    else:
        first, last = max(0, size - int(found[2])), size - 1
        if not int(found[2]):
            first = size
    if first >= size:
        raise HTTPException(
            416, "There are no such bytes.", headers={"Content-Range": f"bytes */{size}"}
        )
    return range(first, last + 1)
