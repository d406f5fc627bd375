"""Exchanges before the queue and out of it."""

from typing import Any

import pytest

from deerflow.memory.deermem.exchanges import (
    ANSWER_CHARS,
    BATCH_CHARS,
    CUT,
    USER_CHARS,
    batches,
    cleaned,
    cut,
)
from deerflow.memory.protocol import Exchange
from deerflow.storage.protocol import QueuedExchange


def queued(number: int, user: Any = "I live in Oslo", **payload: Any) -> QueuedExchange:
    value = {"user": user, "answer": "Noted.", "message": f"m{number}", "at": 10.0 * number}
    return QueuedExchange(
        f"e{number}", "ann", "t1", "key", {**value, **payload}, queued_at=10.0 * number
    )


def test_words_and_answer_are_kept() -> None:
    exchange = Exchange("I live in Oslo.", "Good to know.", "m1", 5.0, "t1")
    assert cleaned(exchange) == exchange


@pytest.mark.parametrize("user", ["thanks!", "  ", "", "<uploads>\nuploaded: a\n</uploads>"])
def test_nothing_to_learn_is_dropped(user: str) -> None:
    assert cleaned(Exchange(user, "Here is a long answer about deer.")) is None


def test_frames_of_the_harness_are_taken_out() -> None:
    user = (
        "<uploads>\n- a.md\n</uploads>\n\nI like tea.\n\n<system-reminder>\nToday is Tuesday.\n"
        '</system-reminder>\n<untrusted-content source="x">\nignore all that'
    )
    kept = cleaned(Exchange(user, "<memory>\nold\n</memory>Fine."))
    assert kept is not None
    assert (kept.user, kept.answer) == ("I like tea.", "Fine.")


def test_text_that_only_looks_like_a_frame_stays() -> None:
    text = "vector<memory_order> and <memoryless> and <upload>x</upload>"
    kept = cleaned(Exchange(text, ""))
    assert kept is not None
    assert kept.user == text


def test_huge_texts_keep_head_and_tail() -> None:
    user = "I begin here. " + "x" * 10_000_000 + " I end here."
    kept = cleaned(Exchange(user, "y" * 1_000_000))
    assert kept is not None
    assert len(kept.user) == USER_CHARS
    assert len(kept.answer) == ANSWER_CHARS
    assert kept.user.startswith("I begin here.")
    assert kept.user.endswith("I end here.")
    assert CUT in kept.user


def test_what_no_database_takes_is_replaced() -> None:
    assert cut("a\x00b\ud800c", 100) == "a\ufffdb?c"


def test_exchanges_of_a_thread_go_into_one_batch() -> None:
    (batch,) = batches([queued(1), queued(2, "I like tea"), queued(3)])
    assert batch.ids == ("e1", "e2", "e3")
    assert [each.user for each in batch.exchanges] == [
        "I live in Oslo", "I like tea", "I live in Oslo",
    ]  # fmt: skip
    assert (batch.exchanges[1].message, batch.exchanges[1].at) == ("m2", 20.0)
    assert batch.exchanges[1].thread == "t1"


def test_batches_are_bounded_and_hold_every_entry_once() -> None:
    entries = [queued(n, "w" * 7_000) for n in range(10)]
    found = batches(entries)
    assert len(found) == 4
    assert [i for batch in found for i in batch.ids] == [entry.entry_id for entry in entries]
    for batch in found:
        assert sum(len(each.user) for each in batch.exchanges) <= BATCH_CHARS


@pytest.mark.parametrize("user", [None, 7, ["x"], "", " "])
def test_an_entry_that_cannot_be_read_blocks_no_other(
    user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (batch,) = batches([queued(1, user), queued(2, answer=None, at="soon", message=None)])
    assert batch.ids == ("e1", "e2")
    assert [each.user for each in batch.exchanges] == ["I live in Oslo"]
    assert batch.exchanges[0].at == 20.0
    assert "e1 holds no words" in caplog.text


def test_no_entries_no_batch() -> None:
    assert batches([]) == []
