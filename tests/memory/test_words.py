"""Words of texts, and whether two texts say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.memory.deermem.words import clean, is_prefix, normalised, query_words, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Likes GREEN tea.", ["like", "green", "tea"]),
        ("two-part user_name v2 3.5", ["two", "part", "user", "name", "v2", "3", "5"]),
        ("Straße ÜBER ﬁne", ["strasse", "über", "fine"]),
        ("cities buses classes glass bus is", ["city", "buse", "classe", "glass", "bus", "is"]),
        ("我喜欢猫", ["我喜", "喜欢", "欢猫", "猫"]),
        ("猫 cat猫", ["猫", "cat", "猫"]),
        ("コーヒー", ["コー", "ーヒ", "ヒー", "ー"]),
        ("हिन्दी", ["हिन्दी"]),
        ("…!?", []),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert list(words(text)) == found


def test_a_query_leaves_out_what_says_nothing() -> None:
    assert query_words("What is my favourite tea? The tea!") == ("favourite", "tea")
    assert query_words("what is it") == ("what", "is", "it")
    assert query_words("喜欢猫") == ("喜欢", "欢猫")
    assert [word for word in query_words("猫 a 字典") if is_prefix(word)] == ["猫"]


def test_of_a_long_query_both_ends_count() -> None:
    found = query_words("begin " + "middle " * 10_000 + "end")
    assert {"begin", "middle", "end"} <= set(found)
    assert len(query_words(" ".join(f"w{number}" for number in range(5000)))) == 200


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Likes tea", "likes  TEA!"),
        ("Uses „quotes“", 'uses "quotes"'),
        ("ﬁne", "FINE"),
        ("喜欢猫。", "喜欢猫"),
        ("Straße", "STRASSE"),
    ],
)
def test_these_say_the_same(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Writes C", "Writes C++"),
        ("Writes C++", "Writes C#"),
        ("Pays $5", "Pays €5"),
        ("It is -5 degrees", "It is 5 degrees"),
        ("Wants 50 %", "Wants 50"),
        ("3.5 cups", "35 cups"),
        ("!!", "??"),
        ("Likes tea", "Likes no tea"),
    ],
)
def test_these_do_not(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@given(st.text())
def test_cleaning_is_done_once_and_leaves_what_any_storage_can_hold(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert cleaned.encode().decode() == cleaned
    assert "\0" not in cleaned
    assert "\n" not in cleaned


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_text_is_found_by_each_of_its_words(text: str) -> None:
    of_fact = words(text)
    for word in query_words(text):
        hits = [w for w in of_fact if w.startswith(word)] if is_prefix(word) else [word]
        assert set(hits) & set(of_fact)
