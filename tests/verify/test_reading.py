"""Replies are read strictly: what is not said is not guessed."""

from __future__ import annotations

import json

import pytest

from deerflow.verify.messages import ResolverOutput, ValidatorVerdict
from deerflow.verify.reading import ReplyError, read_choice, read_resolution, read_verdict

YES = '{"accepted": true, "feedback": "", "checked_answer": "12"}'
NO = '{"accepted": false, "feedback": "sign", "checked_answer": "12"}'


@pytest.mark.parametrize(
    "text",
    [
        YES,
        f"  {YES}\n",
        f"```json\n{YES}\n```",
        f"```\n{YES}```",
        f"```JSON \r\n{YES}\r\n```",
        f"<think>accepted: false?</think>{YES}",
    ],
)
def test_a_verdict_is_bare_or_the_only_fenced_block(text: str) -> None:
    assert read_verdict(text) == ValidatorVerdict(True, "", "12")


@pytest.mark.parametrize("text", [NO, f"```json\n{NO}\n```", f"```\n{NO}\n```"])
def test_a_rejection_stays_one_bare_and_fenced(text: str) -> None:
    assert read_verdict(text) == ValidatorVerdict(False, "sign", "12")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is incorrect",
        "The answer is correct.",
        "accept",
        "yes",
        "right",
        "true",
        "[true]",
        '"accepted"',
        "{}",
        '{"feedback": "fine"}',
        '{"accepted": "false"}',
        '{"accepted": "true"}',
        '{"accepted": 1}',
        '{"accepted": 0}',
        '{"accepted": null}',
        '{"accepted": [true]}',
        '{"accepted": NaN}',
        '{"accepted": true, "score": NaN}',
        '{"accepted": true, "score": Infinity}',
        '{"accepted": true',
        '{"accepted": True}',
        "{'accepted': true}",
        '{"accepted": false, "accepted": true}',
        '{"Accepted": true, "accepted": false}',
        '{"accepted ": true, "accepted": false}',
        '{"accepted": true, "feedback": ["x"]}',
        '{"accepted": true, "checked_answer": {"x": 1}}',
        f"{YES}{YES}",
        f"{NO}\n{YES}",
        f"I accept. {YES}",
        f"{YES} That is all.",
        f"Here it is:\n```json\n{YES}\n```",
        f"```json\n{YES}\n```\nDone.",
        f"```json\n{NO}\n```\n```json\n{YES}\n```",
        f"```python\n{YES}\n```",
        f"```json\n{YES}",
        "[" * 100_000,
        '{"accepted": ' * 50_000,
        '{"accepted": true, "feedback": "' + "x" * 300_000 + '"}',
    ],
)
def test_anything_else_is_no_verdict(text: str) -> None:
    with pytest.raises(ReplyError) as error:
        read_verdict(text)
    assert error.value.why


def test_a_number_counts_as_it_was_written() -> None:
    text = '{"accepted": false, "checked_answer": 1.50, "feedback": null}'
    assert read_verdict(text) == ValidatorVerdict(False, "", "1.50")
    huge = "9" * 10_000
    assert read_verdict(f'{{"accepted": false, "checked_answer": {huge}}}').checked_answer == huge


def test_further_keys_do_not_matter() -> None:
    assert read_verdict('{"accepted": true, "confidence": 0.9, "note": "x"}').accepted


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"response": "B"}', ResolverOutput("B")),
        (
            '{"reasoning": "r", "response": "x = 12", "final": "12", "confidence": 0.75}',
            ResolverOutput("x = 12", "r", 0.75, "12"),
        ),
        ('{"response": 12.50}', ResolverOutput("12.50")),
        ('```json\n{"response": "B"}\n```', ResolverOutput("B")),
        (
            'First this.\n```json\n{"response": "B", "reasoning": "r"}\n```\nThen that.',
            ResolverOutput("B", "First this.\n\nThen that.\n\nr"),
        ),
        ("The answer is B", ResolverOutput("The answer is B")),
        ("<think>C?</think>\nB", ResolverOutput("B")),
        ('{"answer": "B"}', ResolverOutput('{"answer": "B"}')),
        ('{"response": ["B"]}', ResolverOutput('{"response": ["B"]}')),
        ('{"response": "B"', ResolverOutput('{"response": "B"')),
        ("[1, 2]", ResolverOutput("[1, 2]")),
        ("```\ncode\n```", ResolverOutput("```\ncode\n```")),
        (
            '```json\n{"response": "B"}\n```\n```json\n{"response": "C"}\n```',
            ResolverOutput('```json\n{"response": "B"}\n```\n```json\n{"response": "C"}\n```'),
        ),
        ('{"response": "```\\ncode\\n```"}', ResolverOutput("```\ncode\n```")),
    ],
)
def test_a_resolution_loses_nothing(text: str, found: ResolverOutput) -> None:
    assert read_resolution(text) == found


@pytest.mark.parametrize("stated", ["-0.1", "1.1", '"0.9"', "null", "true", "1e999", "9" * 50])
def test_what_is_no_share_was_not_stated(stated: str) -> None:
    assert read_resolution(f'{{"response": "B", "confidence": {stated}}}').confidence is None


def test_the_ends_of_confidence_are_stated() -> None:
    assert read_resolution('{"response": "B", "confidence": 0}').confidence == 0
    assert read_resolution('{"response": "B", "confidence": 1.0}').confidence == 1


@pytest.mark.parametrize(
    "text", ["", " \n", "<think>hm</think>", '{"response": ""}', '{"response": null, "final": "B"}']
)
def test_no_answer_is_no_resolution(text: str) -> None:
    with pytest.raises(ReplyError):
        read_resolution(text)


@pytest.mark.parametrize(
    ("choice", "number"), [(1, 1), (2, 2), (0, 0), ("1", 1), (" 2 ", 2), ("0", 0)]
)
def test_a_choice(choice: object, number: int) -> None:
    assert read_choice(json.dumps({"reason": "r", "choice": choice})) == number


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "Answer 1",
        '{"choice": 3}',
        '{"choice": -1}',
        '{"choice": 1.0}',
        '{"choice": true}',
        '{"choice": null}',
        '{"choice": "A"}',
        '{"choice": [1]}',
        "{}",
    ],
)
def test_anything_else_is_no_choice(text: str) -> None:
    with pytest.raises(ReplyError):
        read_choice(text)


@pytest.mark.parametrize(
    "text", ["```" + " " * 190_000, "```\n" * 40_000, "```json\n" + " " * 190_000, "`" * 190_000]
)
def test_long_hostile_replies_end(text: str) -> None:
    """A quadratic pattern would run into the test's time limit here."""
    assert read_resolution(text + "x").response == text + "x"
    with pytest.raises(ReplyError):
        read_verdict(text)
