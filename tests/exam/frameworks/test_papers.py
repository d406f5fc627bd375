"""A paper holds what roles may see, with our own instructions, and no key."""

from __future__ import annotations

import json

from deerflow.exam.dataset import problem_of
from deerflow.exam.frameworks.papers import paper_of
from deerflow.exam.frameworks.registry import FRAMEWORKS
from deerflow.exam.guidance import Guidance
from deerflow.verify import prompts
from fakes.exams import six


def test_no_key_no_rubric_no_notes() -> None:
    dataset = six()
    paper = paper_of(dataset, FRAMEWORKS["langgraph"])
    text = json.dumps(paper)
    for question in dataset.questions:
        assert question.answer_type == "letter" or question.answer not in text
        assert not any(c.criterion in text for c in question.scoring.rubric or ())
    named = {name for slip in paper["questions"] for name in slip}
    assert named == {"id", "subject", "type", "kind", "text", "resolver", "validator"}


def test_the_instructions_are_ours() -> None:
    dataset = six()
    guidance = Guidance()
    slips = paper_of(dataset, FRAMEWORKS["crewai"])["questions"]
    assert [slip["id"] for slip in slips] == list(dataset.ids)
    for question, slip in zip(dataset.questions, slips, strict=True):
        problem = problem_of(question)
        said = {role: guidance(problem, role) for role in ("resolver", "validator")}
        assert slip["resolver"] == prompts.system("resolver", problem, said["resolver"])
        review = prompts.system("validator", problem, said["validator"], review=True)
        assert slip["validator"] == review
        assert slip["text"] == prompts.question(problem)


def test_a_program_tells_its_size() -> None:
    one, other = (paper_of(six(), FRAMEWORKS[name])["config"] for name in ("langgraph", "crewai"))
    assert one["arm"] == other["arm"] == "A2"
    assert one["prompts_sha256"] == other["prompts_sha256"]
    assert 0 < one["lines_of_code"] < other["lines_of_code"]
