"""The package's own dataset: its form, its balance, and rubrics that grade its own answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from deerflow.exam.dataset import SUBJECTS, Question, load_dataset
from deerflow.exam.generators.registry import OWN_FILE, SOURCE, own_part
from deerflow.exam.graders import compat

PUBLIC = Path(__file__).parents[3].joinpath("shared", "exam", "questions.json")
DATASET = load_dataset(OWN_FILE)
QUESTIONS = DATASET.questions
RECORDS = DATASET.records()
LETTERED = [each for each in QUESTIONS if each.answer_type == "letter"]
WRITTEN = [each for each in QUESTIONS if each.answer_type == "text"]


def chinese(text: str) -> bool:
    return any("\u4e00" <= mark <= "\u9fff" for mark in text)


def texts(question: Question) -> list[str]:
    """Options without their letters."""
    return [option[3:] for option in question.options or ()]


def key_of(question: Question) -> str:
    return texts(question)["ABCD".index(question.answer)]


def test_the_file_is_written_as_datasets_are() -> None:
    data = OWN_FILE.read_bytes()
    written = json.dumps(json.loads(data), ensure_ascii=False, indent=2) + "\n"
    assert data == written.encode()


def test_every_subject_has_enough_of_both_forms() -> None:
    assert len(QUESTIONS) >= 128
    for subject in SUBJECTS:
        forms = Counter(each.type for each in QUESTIONS if each.subject == subject)
        assert sum(forms.values()) >= 16, subject
        assert min(forms["multiple_choice"], forms["short_answer"]) >= 5, subject
    assert [each.subject for each in QUESTIONS] == sorted(
        (each.subject for each in QUESTIONS), key=SUBJECTS.index
    )


def test_about_half_is_chinese() -> None:
    share = {
        subject: sum(chinese(each.question) for each in QUESTIONS if each.subject == subject) / 16
        for subject in SUBJECTS
    }
    assert share.pop("chinese") == 1
    assert 0 < share.pop("english") <= 0.25
    assert {name: part for name, part in share.items() if not 0.4 <= part <= 0.6} == {}


def test_difficulties_are_mixed() -> None:
    counts = Counter(each.difficulty for each in QUESTIONS)
    wanted = {"easy": 0.35, "medium": 0.45, "hard": 0.20}
    far = {
        n: counts[n] for n, part in wanted.items() if abs(counts[n] / len(QUESTIONS) - part) > 0.04
    }
    assert far == {}
    for subject in SUBJECTS:
        assert {e.difficulty for e in QUESTIONS if e.subject == subject} == set(wanted), subject


def test_letters_are_balanced() -> None:
    counts = Counter(each.answer for each in LETTERED)
    assert set(counts) == set("ABCD")
    assert max(counts.values()) - min(counts.values()) <= 2
    for subject in SUBJECTS:
        share = Counter(each.answer for each in LETTERED if each.subject == subject)
        assert set(share) == set("ABCD"), subject
        assert max(share.values()) <= 4, subject


def test_options_are_lettered_and_differ() -> None:
    for each in LETTERED:
        assert [option[:3] for option in each.options or ()] == ["A. ", "B. ", "C. ", "D. "], (
            each.id
        )
        assert len({text.casefold().strip() for text in texts(each)}) == 4, each.id


@pytest.mark.parametrize("extreme", [max, min], ids=["longest", "shortest"])
def test_length_does_not_give_the_key_away(extreme: type) -> None:
    told = []
    for each in LETTERED:
        sizes = [len(text) for text in texts(each)]
        if sizes.count(extreme(sizes)) == 1 and len(key_of(each)) == extreme(sizes):
            told.append(each.id)
    assert len(told) <= 0.4 * len(LETTERED), told


def test_no_text_stands_twice() -> None:
    counts = Counter(" ".join(each.question.casefold().split()) for each in QUESTIONS)
    assert [text for text, times in counts.items() if times > 1] == []


def test_a_record_says_how_it_is_scored_and_where_it_comes_from() -> None:
    for each in QUESTIONS:
        assert each.source == SOURCE, each.id
        assert each.scoring.method == ("exact" if each.answer_type == "letter" else "rubric")
        assert each.notes == "" or each.notes.startswith("accept: "), each.id
        assert (each.answer_type == "letter") == (each.type == "multiple_choice"), each.id
    assert [each.id for each in LETTERED if each.notes or each.scoring.max_points != 1] == []


def test_criteria_are_worth_a_point_each() -> None:
    for each in WRITTEN:
        rubric = each.scoring.rubric or ()
        assert [part.points for part in rubric] == [1] * each.scoring.max_points, each.id
        assert all(compat.normalise(part.criterion) for part in rubric), each.id


def test_reference_answers_earn_all_points_and_silence_none() -> None:
    for each in QUESTIONS:
        assert compat.grade(RECORDS[each.id], each.answer).correct, each.id
        assert compat.grade(RECORDS[each.id], "").earned == 0, each.id


def test_accepted_spellings_earn_all_points() -> None:
    for each in WRITTEN:
        for spelling in compat.synonyms_of(each.notes):
            assert compat.normalise(spelling), (each.id, spelling)
            assert compat.grade(RECORDS[each.id], spelling).correct, (each.id, spelling)


def test_a_question_does_not_hold_its_answer() -> None:
    told = [each.id for each in WRITTEN if compat.grade(RECORDS[each.id], each.question).correct]
    assert told == []
    excused = "I do not know the answer."
    assert [e.id for e in WRITTEN if compat.grade(RECORDS[e.id], excused).earned] == []


def test_the_generated_part_is_what_its_seed_gives() -> None:
    drawn = own_part()
    assert len(drawn) >= 48
    kept = json.loads(OWN_FILE.read_text(encoding="utf-8"))
    by_id = {each["id"]: each for each in kept}
    assert [by_id.get(each["id"]) for each in drawn] == drawn
    assert {e["id"] for e in kept if int(e["id"][-3:]) >= 201} == {e["id"] for e in drawn}


@pytest.mark.skipif(not PUBLIC.is_file(), reason="the public dataset is not here")
def test_nothing_is_taken_from_the_public_dataset() -> None:
    public = load_dataset(PUBLIC).questions
    assert {each.id for each in public} & set(RECORDS) == set()
    known = {compat.normalise(each.question) for each in public} - {""}
    assert [each.id for each in QUESTIONS if compat.normalise(each.question) in known] == []
    options = {frozenset(texts(each)) for each in public if each.options}
    assert [each.id for each in LETTERED if frozenset(texts(each)) in options] == []
