"""Encoding: stored text comes back as it was."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from deerflow.errors import StorageError
from deerflow.storage.encoding import clean_text, copied, dump_json, load_json, pack, unpack


@given(some.binary(max_size=3000))
def test_pack_and_unpack(data: bytes) -> None:
    assert unpack(pack(data)) == data


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 5000, zlib.compress(b"x" * 9000)])
def test_what_looks_compressed_comes_back_too(data: bytes) -> None:
    assert unpack(pack(data)) == data


def test_long_text_is_compressed_and_short_text_is_not() -> None:
    assert len(pack(b'{"text": "' + b"word " * 500 + b'"}')) < 100
    assert pack(b'{"a": 1}') == b'{"a": 1}'


JSON = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**53), 2**53)
    | some.text(some.characters(exclude_categories=["Cs"])),
    lambda inner: some.lists(inner) | some.dictionaries(some.text("abc"), inner),
)


@given(JSON)
def test_json_comes_back(value: object) -> None:
    assert load_json(dump_json(value)) == value
    assert copied(value) == value


def test_surrogates_become_question_marks_in_keys_and_values() -> None:
    assert load_json(dump_json({"k\udc80": ["v\ud800", ("t",)]})) == {"k?": ["v?", ["t"]]}
    assert clean_text("plain") == "plain"
    assert clean_text("\U0001f98c\udcff") == "\U0001f98c?"


def test_what_is_not_json_is_named() -> None:
    with pytest.raises(StorageError, match="not JSON.*object"):
        dump_json({"a": object()})
