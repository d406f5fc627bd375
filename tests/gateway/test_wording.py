"""Small questions to a model: lists are read out of any reply, failures cost nothing."""

from __future__ import annotations

import pytest

from deerflow.errors import LimitError, ModelUnavailableError
from deerflow.gateway.wording import EXCERPT, LONGEST, TURNS, polish, read_list, suggest


class Model:
    """Says a text, or raises; remembers what it was asked."""

    def __init__(self, reply: str | Exception) -> None:
        self.reply = reply
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, system: str, user: str) -> str:
        self.asked.append((system, user))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('["One?", "Two?"]', ["One?", "Two?"]),
        ('Sure!\n```json\n["One?",\n "One?", " Two\n?"]\n```', ["One?", "Two ?"]),
        ('[{"q": "One?"}, "", 3, "Two?"]', ["Two?"]),
        ("No idea.", []),
        ('["cut off', []),
        ('{"a": 1}', []),
        ("[" * 100_000 + "]" * 100_000, []),
        (f'["{"x" * 500}"]', ["x" * LONGEST]),
    ],
)
def test_questions_are_read_out_of_any_reply(reply: str, found: list[str]) -> None:
    raw = reply.replace(" Two\n?", " Two\\n?")
    assert read_list(raw) == found


async def test_only_the_end_of_the_conversation_is_sent_and_cut() -> None:
    model = Model('["A?", "B?", "C?"]')
    said = [("user", f"{number} " + "x" * 9_000) for number in range(20)]
    assert await suggest(model, said, 2) == ["A?", "B?"]
    lines = model.asked[0][1].split("\n\n")
    assert [line[:8] for line in lines] == [f"user: {20 - TURNS + n}" for n in range(TURNS)]
    assert max(map(len, lines)) <= EXCERPT + len("user: ")
    assert "exactly 2" in model.asked[0][0]


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailableError("down"),
        LimitError("full", rule="day", used=1, limit=1),
        TimeoutError(),
    ],
)
async def test_a_model_that_fails_suggests_nothing(error: Exception) -> None:
    assert await suggest(Model(error), [("user", "Hello")], 3) == []


async def test_without_words_nobody_is_asked() -> None:
    model = Model('["A?"]')
    assert await suggest(model, [("user", "  ")], 3) == []
    assert model.asked == []


async def test_a_draft_is_rewritten_or_stays() -> None:
    assert await polish(Model("  Better.\n"), "worse", "de") == "Better."
    assert await polish(Model("  "), "worse") == "worse"
    with pytest.raises(ModelUnavailableError):
        await polish(Model(ModelUnavailableError("down")), "worse")
