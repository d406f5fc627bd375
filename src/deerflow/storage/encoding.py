"""JSON as it is stored: compressed when that pays, never stopped by a lone surrogate."""

from __future__ import annotations

import zlib
from typing import Any, cast

import orjson

from deerflow.errors import RecordError

COMPRESS_ABOVE = 512
"""Bytes from which compressing is tried; below it the header eats the gain."""
LEVEL = 6
"""zlib level; 1 is 20 % quicker on 2 kB and 10 % larger."""


_ZLIB = b"\x78"


def dump_json(value: Any) -> bytes:
    """JSON text of a value.

    Raises:
        RecordError: the value is not JSON.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return orjson.dumps(_clean(value))
    except TypeError as error:
        raise RecordError(f"A record is not JSON: {error}.") from error


def load_json(data: bytes | str | None) -> Any:
    """What `dump_json` was given; None stays None."""
    return None if data is None else orjson.loads(data)


def copied(value: Any) -> Any:
    """The value as a reader of the store would get it: through JSON and back.

    Raises:
        RecordError: the value is not JSON.
    """
    return orjson.loads(dump_json(value))


def clean_text(text: str) -> str:
    """The text with lone surrogates (no UTF-8 exists for them) replaced by `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def column_text(text: str) -> str:
    """The text as every database can keep it in a column: also without the character 0."""
    return clean_text(text).replace("\x00", "\ufffd")


def pack(data: bytes, above: int = COMPRESS_ABOVE) -> bytes:
    """Stored form: zlib (first byte 0x78) when that is smaller, else as it is.

    Args:
        data: what to store.
        above: bytes from which compressing is tried.
    """
    marked = data[:1] == _ZLIB
    if len(data) < above and not marked:
        return data
    small = zlib.compress(data, LEVEL)
    return small if marked or len(small) < len(data) else data


def unpack(data: bytes) -> bytes:
    """What `pack` was given."""
    return zlib.decompress(data) if data[:1] == _ZLIB else data


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {_clean(key): _clean(item) for key, item in pairs}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in cast("list[Any]", value)]
    return value
