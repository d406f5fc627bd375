"""The upper rungs for a disagreement: an adjudicator, then a majority of fresh answers.

The lower ones, a check by code and a further attempt with feedback, are steps of the loop itself.
A rung that fails or decides nothing leaves it to the next; behind the last one the loop abstains.
"""

from __future__ import annotations

from random import Random

from deerflow.verify import prompts
from deerflow.verify.candidates import Candidate, handed_in
from deerflow.verify.course import Course, Fault
from deerflow.verify.reading import read_choice, read_resolution


async def adjudicated(course: Course, shuffle: Random) -> bool:
    """Whether an adjudicator settled it: it sees both answers without authors, in random order.

    Raises:
        LimitError: the budget has no room for it.
    """
    pair = _pair(course)
    if len(pair) < 2:
        course.climb("adjudicator", "no two answers that may be right")
        return False
    shuffle.shuffle(pair)
    shown = [handed_in(course.problem, candidate.output) for candidate in pair]
    prompt = prompts.adjudicate(course.problem, shown)
    try:
        choice = await course.ask("adjudicator", "adjudicate", prompt, read_choice)
    except Fault as fault:
        course.climb("adjudicator", f"failed: {fault}")
        return False
    course.note("adjudicate", answers=shown, choice=choice)
    if not choice:
        course.climb("adjudicator", "neither")
        return False
    chosen = pair[choice - 1]
    if await course.check(chosen, "adjudicator") == "refuted":
        course.climb("adjudicator", "refuted by code")
        return False
    chosen.voices.append("adjudicator")
    course.choose(chosen, "adjudicator")
    course.climb("adjudicator", "chose one")
    return True


async def majority(course: Course, count: int) -> bool:
    """Whether most of `count` fresh answers are one that the validator came to as well.

    The resolver's own majority is no second opinion: without the validator's it is kept as the
    best supported answer and not accepted.

    Raises:
        LimitError: the budget has no room for all.
    """
    await sampled(course, count)
    winner = most_sampled(course)
    if winner is None or winner.voices.count("sample") * 2 <= count:
        course.climb("majority", "none")
        return False
    if await course.check(winner, "resolver") == "refuted":
        course.climb("majority", "refuted by code")
        return False
    if not winner.validated:
        course.climb("majority", "not shared by the validator")
        return False
    course.choose(winner, "majority")
    course.climb("majority", "settled")
    return True


async def sampled(course: Course, count: int) -> Fault | None:
    """Ask for fresh answers that know of no other; the fault that ended it early, if one did.

    Raises:
        LimitError: the budget has no room for all.
    """
    prompt = prompts.question(course.problem)
    for number in range(1, count + 1):
        try:
            answer = await course.ask("resolver", "sample", prompt, read_resolution, number=number)
        except Fault as fault:
            course.note("sample", number=number, failed=fault.error)
            return fault
        course.note_answer("sample", answer, number=number)
        course.candidates.add(answer, "sample")
    return None


def most_sampled(course: Course) -> Candidate | None:
    """The answer that most samples gave, the earliest of several; None without samples."""
    counted = [c for c in course.candidates if "sample" in c.voices]
    return max(counted, key=lambda c: c.voices.count("sample"), default=None)


def _pair(course: Course) -> list[Candidate]:
    """The resolver's best answer and the validator's, as far as code has nothing against them."""
    able = [c for c in course.candidates if c.may_win and c.check != "refuted"]
    resolved = [c for c in able if "resolver" in c.voices]
    first = max(resolved, key=lambda c: c.standing, default=None)
    blind = [c for c in able if "validator" in c.voices and c is not first]
    second = blind or [c for c in able if "review" in c.voices and c is not first][-1:]
    return [first, second[0]] if first is not None and second else []
