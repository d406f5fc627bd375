"""What stays of a user's words: limits and corrections always, the rest while it fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.middlewares.kept_words import (
    GAP,
    LONGEST,
    PASTE,
    is_directive,
    kept_words,
    sentences,
)

CHATTER = "That was a good read. The deer in it were lovely."

STATED = [
    "The answer must fit on one page.",
    "Never touch the file config.yaml.",
    "Always cite the source.",
    "Only primary sources count.",
    "At most five pictures.",
    "No more than 300 words.",
    "The town is not Oslo but Bergen.",
    "Make it blue instead.",
    "Actually, the year was 1987.",
    "Correction: it has 12 antlers.",
    "No, the other one.",
    "That is wrong: she was born in May.",
    "There is a limit of 2 MB.",
    "My budget is 500 €.",
    "The deadline is Friday.",
    "Use metric units.",
    "Please don't mention prices.",
    "Keep the API names.",
    "You should answer in French.",
    "I meant the second table.",
    "Write it by Tuesday.",
    "不要使用表格。",
    "必须用中文回答。",
    "最多三段。",
    "字数不超过五百。",
    "把标题改成鹿。",
    "答案应该是四。",
    "只看第一章。",
    "别提价格。",
    "纠正:她生于五月。",
    "预算是五百元。",
    "Bitte höchstens drei Absätze.",
    "Das Kapitel darf nie länger sein.",
    "Nicht Oslo, sondern Bergen.",
    "Verwende metrische Einheiten.",
    "Il ne faut pas citer de prix.",
    "Au plus trois paragraphes.",
    "N'utilise que des sources primaires.",
    "Nothing older than 2019.",
    "Cap it at twenty items.",
    "Oops, her name is Jonna.",
    "Forget Oslo.",
    "Answer in one sentence.",
    "Ausschließlich Primärquellen.",
    "Nein, das andere.",
    "Spätestens am Dienstag.",
    "Weniger als drei Seiten.",
    "Ich meinte den zweiten Punkt.",
    "Ne cite aucun prix.",
    "Non, l'autre.",
    "Moins de 200 mots.",
    "Réponds en français.",
    "控制在三百字左右。",
    "字数少于五百。",
    "把第三章删掉。",
    "我说的是第二张表。",
    "限三段。",
]


@pytest.mark.parametrize("sentence", STATED)
def test_limits_and_corrections_are_seen(sentence: str) -> None:
    assert is_directive(sentence)
    assert is_directive(sentence.upper())


@pytest.mark.parametrize(
    "sentence", [CHATTER, "Tell me about deer.", "Wie geht es dir?", "你好,谢谢你。", "Merci bien."]
)
def test_talk_is_not(sentence: str) -> None:
    assert not is_directive(sentence)


@pytest.mark.parametrize("sentence", STATED)
def test_they_stay_word_for_word_in_the_middle_of_a_long_message(sentence: str) -> None:
    text = f"{CHATTER * 20}\n{sentence} {CHATTER * 20}"
    [kept] = kept_words([text], budget=40, most=1_000)
    assert sentence in kept
    assert len(kept) < len(text) / 4


def test_everything_stays_while_it_fits() -> None:
    texts = ["Hello there. " + CHATTER, "Use metric units.", "  Bye.\n"]
    assert kept_words(texts, budget=1_000, most=1_000) == [texts[0], texts[1], "Bye."]


def test_the_oldest_without_limits_shrink_first_to_their_beginning() -> None:
    texts = [f"Question {n}. {CHATTER}" for n in range(4)]
    texts[1] = f"Question 1. {CHATTER} At most 5 lines."
    kept = kept_words(texts, budget=80, most=200)
    assert kept[0] == f"Question 0.\n{GAP}"
    assert kept[1:] == texts[1:]


def test_then_first_sentences_go_and_only_limits_stay() -> None:
    texts = [f"Question {n}. {CHATTER} At most {n} lines. {CHATTER}" for n in range(20)]
    kept = kept_words([CHATTER, *texts], budget=1, most=10_000)
    assert kept == [f"At most {n} lines.\n{GAP}" for n in range(20)]


def test_beyond_the_last_limit_pastes_go_before_what_was_typed() -> None:
    paste = "You must not read this line of a log.\n" * 1 + "".join(
        f"Line {n}: the driver must not do it.\n" for n in range(200)
    )
    assert len(paste) > PASTE
    kept = kept_words([paste, "At most 5 lines. " + CHATTER], budget=10, most=100)
    assert kept == [f"At most 5 lines.\n{GAP}"]


def test_a_list_stays_with_the_limit_that_introduces_it() -> None:
    text = f"{CHATTER}\nThe report must have:\n- a title\n- three maps\n2. a source\n\n{CHATTER}"
    [kept] = kept_words([text], budget=1, most=1_000)
    assert kept == f"The report must have:\n- a title\n- three maps\n2. a source\n{GAP}"


def test_abbreviations_and_numbers_part_no_sentence() -> None:
    assert sentences("Use at most e.g. five, max. 5 or approx. 7 lines. Then stop!") == [
        "Use at most e.g. five, max. 5 or approx. 7 lines.",
        "Then stop!",
    ]
    assert sentences("最多三段。不要表格!好") == ["最多三段。", "不要表格!好"]


def test_what_was_said_twice_stays_where_it_was_said_last() -> None:
    texts = [f"At most 5 lines. {CHATTER}"] * 3
    assert kept_words(texts, budget=1, most=1_000) == [f"At most 5 lines.\n{GAP}"]


def test_of_an_endless_sentence_the_part_around_the_limit_stays() -> None:
    text = "word " * 2_000 + "at most five pictures " + "word " * 2_000
    [kept] = kept_words([text], budget=10, most=1_000)
    assert "at most five pictures" in kept
    assert len(kept) <= LONGEST + 2


@given(st.lists(st.text(max_size=200), max_size=20), st.integers(1, 200))
def test_nothing_is_invented(texts: list[str], budget: int) -> None:
    for kept in kept_words(texts, budget, 10 * budget):
        for line in kept.split("\n"):
            assert line == GAP or any(line.strip(GAP) in text for text in texts)


def test_a_long_text_takes_no_long_time() -> None:
    text = "The deer must not, " * 50_000
    assert len(kept_words([text, "a " * 500_000], budget=10, most=100)) <= 2
