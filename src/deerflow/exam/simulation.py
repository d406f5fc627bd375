"""Exams whose truth is known: scripted roles that err at given rates, alone or together.

Each draw is a number out of the seed, the question and the occasion, so that two arms meet the
same luck on the same question, and an exam is the same however often it is simulated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from deerflow.errors import UsageError
from deerflow.exam.arms import ARMS, Arm
from deerflow.exam.contract import replace_file
from deerflow.exam.dataset import SUBJECTS, Question, Scoring
from deerflow.exam.sitting import ExamPlan, sit
from deerflow.models.usage import CHARS_PER_TOKEN, Tokens
from deerflow.verify.loop import Loop
from deerflow.verify.messages import CheckOutcome, Problem
from deerflow.verify.protocol import Ask, Reply

LETTERS = "ABCD"
_ANSWER = re.compile(r"--- BEGIN answer [0-9a-f]+ ---\n([A-D])\n--- END")
_OWN = re.compile(r"--- BEGIN own answer [0-9a-f]+ ---\n([A-D])\n--- END")


@dataclass(frozen=True, slots=True)
class World:
    """How often roles are right; all shares from 0 to 1.

    Attributes:
        resolver: first answers of the resolver that are right.
        validator: own answers of the validator that are right.
        correlation: questions on which both have the same luck.
        lure: wrong answers that are the one mistake that everybody makes.
        corrected: wrong answers that become right after feedback.
        steadfast: right answers that stay right after feedback.
        credulous: wrong answers that a validator who sees them accepts.
        severe: right answers that a validator who sees them refuses.
        adjudicator: choices that fall on the right answer when it is there.
        checkable: questions that code can check.
    """

    resolver: float = 0.7
    validator: float = 0.7
    correlation: float = 0.4
    lure: float = 0.5
    corrected: float = 0.4
    steadfast: float = 0.9
    credulous: float = 0.5
    severe: float = 0.1
    adjudicator: float = 0.8
    checkable: float = 0.25


class Simulated:
    """Asker and Checker of a world.

    Args:
        world: how often roles are right.
        seed: of all luck.
    """

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._seed = seed

    async def ask(self, ask: Ask) -> Reply:
        """See Asker."""
        if ask.step == "adjudicate":
            said = self._choice(ask)
        elif ask.step in ("review", "reask"):
            said = self._verdict(ask)
        else:
            said = {"reasoning": "", "response": self._answer(ask), "confidence": 0.7}
        text = json.dumps(said)
        sent = int(len(ask.system + ask.prompt) / CHARS_PER_TOKEN)
        return Reply(text, Tokens(calls=1, input=sent, output=len(text) // 3))

    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        """See Checker."""
        if self._drawn(problem, "checkable") >= self._world.checkable:
            return CheckOutcome("not_applicable")
        right = response.strip() == key_of(problem.id, self._seed)
        return CheckOutcome("verified" if right else "refuted", "simulated", "simulated")

    def _answer(self, ask: Ask) -> str:
        """An answer to the question: a first one, one after feedback, a sample, or a blind one."""
        problem, world = ask.problem, self._world
        before = _ANSWER.findall(ask.prompt)
        if ask.role == "resolver" and before:
            right = before[-1] == key_of(problem.id, self._seed)
            stays = ask.step == "self_check" or self._luck(ask) < world.steadfast
            if right and stays:
                return before[-1]
            becomes = not right and self._luck(ask) < world.corrected * (ask.step != "self_check")
            return key_of(problem.id, self._seed) if becomes else self._mistake(ask)
        able = world.resolver if ask.role == "resolver" else world.validator
        tied = self._drawn(problem, f"{ask.repeat}:tied") < world.correlation
        luck = self._drawn(problem, f"{ask.repeat}:shared") if tied else self._luck(ask)
        return key_of(problem.id, self._seed) if luck < able else self._mistake(ask)

    def _verdict(self, ask: Ask) -> dict[str, object]:
        key = key_of(ask.problem.id, self._seed)
        (candidate,) = _ANSWER.findall(ask.prompt)[-1:] or [""]
        own = _OWN.findall(ask.prompt)
        luck = self._luck(ask)
        right = candidate == key
        accepted = luck >= self._world.severe if right else luck < self._world.credulous
        if accepted:
            return {"accepted": True, "feedback": "", "checked_answer": candidate}
        found = own[0] if own and own[0] != candidate else key if not right else self._mistake(ask)
        return {"accepted": False, "feedback": "It does not hold.", "checked_answer": found}

    def _choice(self, ask: Ask) -> dict[str, object]:
        answers = _ANSWER.findall(ask.prompt)
        key = key_of(ask.problem.id, self._seed)
        if key not in answers:
            return {"reason": "", "choice": 1}
        place = answers.index(key) + 1
        right = self._luck(ask) < self._world.adjudicator
        return {"reason": "", "choice": place if right else 3 - place}

    def _mistake(self, ask: Ask) -> str:
        key = key_of(ask.problem.id, self._seed)
        wrong = [letter for letter in LETTERS if letter != key]
        if self._luck(ask, "lure") < self._world.lure:
            return wrong[int(self._drawn(ask.problem, "common") * len(wrong))]
        return wrong[int(self._luck(ask, "mistake") * len(wrong))]

    def _luck(self, ask: Ask, what: str = "") -> float:
        occasion = f"{ask.repeat}:{ask.role}:{ask.step}:{ask.attempt}:{ask.number}:{what}"
        return self._drawn(ask.problem, occasion)

    def _drawn(self, problem: Problem, occasion: str) -> float:
        return _draw(self._seed, problem.id, occasion)


def key_of(question_id: str, seed: int) -> str:
    """The right letter of a simulated question."""
    return LETTERS[int(_draw(seed, question_id, "key") * len(LETTERS))]


def questions_of(count: int, seed: int) -> list[Question]:
    """So many simulated questions, spread over the subjects."""
    found: list[Question] = []
    for number in range(count):
        subject = SUBJECTS[number % len(SUBJECTS)]
        id = f"{subject}-{number // len(SUBJECTS) + 1:03}"
        found.append(
            Question(
                id=id,
                subject=subject,
                type="multiple_choice",
                question=f"Simulated question {id}.",
                options=tuple(f"{letter}. the answer {letter}" for letter in LETTERS),
                answer=key_of(id, seed),
                answer_type="letter",
                scoring=Scoring(max_points=1, method="exact"),
                source="simulated",
                difficulty="medium",
                notes="",
            )
        )
    return found


async def outcomes(world: World, arm: Arm, problems: Sequence[Problem], seed: int) -> list[bool]:
    """Whether each problem is answered rightly under an arm.

    Args:
        world: how often roles are right.
        arm: one that does not show the key.
        problems: see `questions_of`.
        seed: of all luck; the same for all arms.
    """
    simulated = Simulated(world, seed)
    found: list[bool] = []
    for problem in problems:
        shuffle = Random(f"{seed}:{problem.id}")  # noqa: S311  # an order
        loop = Loop(simulated, arm.policy, simulated, shuffle=shuffle)
        status = await loop.solve(problem)
        found.append(status.final_response.strip() == key_of(problem.id, seed))
    return found


async def simulate(
    world: World, arms: Sequence[str], out: Path, *, questions: int, repeat: int, seed: int
) -> list[Path]:
    """Sit simulated exams, each arm in a folder of its name below `out`, beside the dataset.

    Args:
        world: how often roles are right.
        arms: names in ARMS.
        out: folder of the dataset and of the arms' folders.
        questions: of the exam.
        repeat: how often each is asked; repeats have luck of their own.
        seed: of all luck.

    Returns:
        The arms' folders.

    Raises:
        UsageError: an arm that does not exist or shows the key, or folders of another simulation.
        StorageError: `out` cannot be written.
    """
    for name in arms:
        if name not in ARMS or ARMS[name].leaky:
            raise UsageError(f"The arm {name} cannot be simulated.", cure="Take A0 to A6.")
    drawn = questions_of(questions, seed)
    document = [question.model_dump(mode="json", exclude_none=True) for question in drawn]
    dataset = out / "questions.json"
    data = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    await asyncio.to_thread(replace_file, dataset, data)
    folders: list[Path] = []
    for name in arms:
        plan = ExamPlan(
            dataset, out / name, "simulated", "simulated", name, repeat, seed=seed,
            simulated=asdict(world),
        )  # fmt: skip
        simulated = Simulated(world, seed)
        await sit(plan, simulated, simulated)
        folders.append(plan.out)
    return folders


def _draw(seed: int, question_id: str, occasion: str) -> float:
    data = hashlib.blake2b(f"{seed}:{question_id}:{occasion}".encode(), digest_size=7).digest()
    return int.from_bytes(data) / 2**56
