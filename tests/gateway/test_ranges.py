"""Range headers."""

from __future__ import annotations

import pytest
from fastapi import HTTPException

from deerflow.gateway.ranges import asked_range


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-4", range(5)),
        ("bytes=5-", range(5, 10)),
        ("bytes=-3", range(7, 10)),
        ("bytes=-99", range(10)),
        ("bytes=9-1048575", range(9, 10)),
        ("Bytes = 1 - 2", None),
        ("bytes= 1 - 2 ", range(1, 3)),
        (None, None),
        ("", None),
        ("bytes=-", None),
        ("bytes=4-2", None),
        ("bytes=0-1,4-5", None),
        ("lines=0-1", None),
    ],
)
def test_ten_bytes(header: str | None, part: range | None) -> None:
    assert asked_range(header, 10) == part


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=0-", 0), ("bytes=-5", 0), ("bytes=-0", 10)]
)
def test_no_such_bytes(header: str, size: int) -> None:
    with pytest.raises(HTTPException) as caught:
        asked_range(header, size)
    assert caught.value.status_code == 416
    assert caught.value.headers == {"Content-Range": f"bytes */{size}"}
