"""The kinds of generated questions, and records drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from deerflow.errors import UsageError
from deerflow.exam.generators.algebra import (
    evaluation,
    expansion,
    factoring,
    linear_equation,
    quadratic_roots,
)
from deerflow.exam.generators.arithmetic import average, percent
from deerflow.exam.generators.drafts import Draft, Maker
from deerflow.exam.generators.heredity import punnett
from deerflow.exam.generators.physics import current, density, force, speed, unit_conversion
from deerflow.exam.generators.places import map_scale, time_zone
from deerflow.exam.generators.substances import balancing, molar_mass
from deerflow.exam.generators.years import year_difference
from deerflow.exam.graders import compat

KINDS: Mapping[str, Maker] = MappingProxyType(
    {
        "linear_equation": linear_equation,
        "quadratic_roots": quadratic_roots,
        "factoring": factoring,
        "expansion": expansion,
        "evaluation": evaluation,
        "percent": percent,
        "average": average,
        "speed": speed,
        "density": density,
        "unit_conversion": unit_conversion,
        "force": force,
        "ohms_law": current,
        "balancing": balancing,
        "molar_mass": molar_mass,
        "punnett": punnett,
        "map_scale": map_scale,
        "time_zone": time_zone,
        "year_difference": year_difference,
    }
)
SOURCE = "DeerFlow, written for this set"
LETTERS = "ABCD"
FIRST, LAST = 201, 999
"""Numbers of generated questions within a subject; those written by hand stay below."""
DRAWS = 200
"""Tries for a question that the batch does not hold yet."""

OWN_FILE = Path(__file__).parents[1] / "data" / "deerflow-128.json"
"""The package's own dataset: written by hand, and drawn from OWN_SEED by OWN_PLAN."""
OWN_SEED = 335
OWN_PLAN: tuple[tuple[int, tuple[str, ...]], ...] = (
    (12, ("linear_equation", "quadratic_roots", "factoring", "expansion", "evaluation",
          "percent", "average")),
    (10, ("speed", "density", "unit_conversion", "force", "ohms_law")),
    (8, ("balancing", "molar_mass")),
    (5, ("punnett",)),
    (5, ("year_difference",)),
    (8, ("map_scale", "time_zone")),
)  # fmt: skip
"""How many questions of which kinds the package's own dataset takes from here."""


def generate(seed: int, count: int, kinds: Sequence[str] = tuple(KINDS)) -> list[dict[str, Any]]:
    """Question records: `kinds` by turns, Chinese and English, letters and words by turns.

    The same arguments give the same records. Texts are unique within a call; numbers of ids
    start at 201 in each subject.

    Args:
        seed: of all draws.
        count: of questions.
        kinds: names in KINDS.

    Raises:
        UsageError: a kind is unknown, or has no further question.
    """
    unknown = [each for each in kinds if each not in KINDS]
    if unknown or not kinds:
        raise UsageError(
            f"unknown kind of question: {', '.join(unknown) or '(none)'}",
            cure=f"known are {', '.join(KINDS)}",
        )
    rng = Random(seed)  # noqa: S311  # questions, nothing secret
    found: list[dict[str, Any]] = []
    texts: set[str] = set()
    numbers: dict[str, int] = {}
    letters: list[str] = []
    for index in range(count):
        turn, place = divmod(index, len(kinds))
        draft = _fresh(rng, kinds[place], (place + turn) % 2 == 0, texts)
        texts.add(draft.text)
        number = numbers[draft.subject] = numbers.get(draft.subject, FIRST - 1) + 1
        if number > LAST:
            raise UsageError(f"more than {LAST - FIRST + 1} questions", cure="ask for fewer")
        wanted = (place // 2 + (turn + 1) // 2) % 2 == 1
        letter = ""
        if not wanted or not _can_be_written(draft):
            letters = letters or rng.sample(LETTERS, len(LETTERS))
            letter = letters.pop()
        found.append(record(draft, f"{draft.subject}-{number}", letter, rng))
    return found


def own_part() -> list[dict[str, Any]]:
    """The generated questions of the package's own dataset, in its order."""
    return [each for count, kinds in OWN_PLAN for each in generate(OWN_SEED, count, kinds)]


def record(draft: Draft, name: str, letter: str, rng: Random) -> dict[str, Any]:
    """A draft as a record of the dataset: with a letter as its key, or written when that is ""."""
    made: dict[str, Any] = {
        "id": name,
        "subject": draft.subject,
        "type": "multiple_choice" if letter else "short_answer",
        "question": draft.text,
    }
    if letter:
        texts = rng.sample(draft.wrong, len(draft.wrong))
        texts.insert(LETTERS.index(letter), draft.key)
        made["options"] = [f"{mark}. {text}" for mark, text in zip(LETTERS, texts, strict=True)]
    made["answer"] = letter or draft.key
    made["answer_type"] = "letter" if letter else "text"
    if letter:
        made["scoring"] = {"max_points": 1, "method": "exact"}
    else:
        rubric = [{"criterion": each, "points": 1} for each in draft.criteria]
        made["scoring"] = {"max_points": len(rubric), "method": "rubric", "rubric": rubric}
    made["source"] = SOURCE
    made["difficulty"] = draft.difficulty
    made["notes"] = "" if letter else _notes(draft)
    return made


def _can_be_written(draft: Draft) -> bool:
    """Whether there is a rubric that the question itself does not meet."""
    rubric = [{"criterion": each, "points": 1} for each in draft.criteria]
    scoring = {"max_points": len(rubric), "rubric": rubric}
    question = {"scoring": scoring, "notes": _notes(draft)}
    return bool(rubric) and not compat.rubric(question, draft.text).correct


def _notes(draft: Draft) -> str:
    return f"accept: {'; '.join(draft.accept)}" if draft.accept else ""


def _fresh(rng: Random, kind: str, chinese: bool, texts: set[str]) -> Draft:
    for _ in range(DRAWS):
        draft = KINDS[kind](rng, chinese)
        if draft.text not in texts:
            return draft
    raise UsageError(f"no further question of the kind {kind}", cure="ask for fewer")
