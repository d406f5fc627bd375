"""The double loop of one question: one role answers, another derives its own answer and compares.

    resolve ── agrees with the blind answer, and code does not refute it ──────────▶ accepted
       ▲  └─── differs: code check ─ verifies one of the two ──────────────────────▶ accepted
       │          └─ review: accepts, with a result that agrees ───────────────────▶ accepted
       └──────────── feedback, at most max_attempts, not twice the same pair
                     └─ adjudicator ─ majority ──────────────────────────▶ accepted | exhausted

A role's failure ends it as resolver_error or validator_error, an empty budget as budget_exceeded;
an answer that was given is kept. Nothing else than the arrows above leads to accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from deerflow.errors import LimitError, UsageError
from deerflow.verify import prompts
from deerflow.verify.candidates import Candidate
from deerflow.verify.course import Cast, Course, Fault, Guidance
from deerflow.verify.ladder import adjudicated, majority, most_sampled, sampled
from deerflow.verify.messages import Problem, QuestionStatus, ResolverOutput, State
from deerflow.verify.policy import Policy
from deerflow.verify.protocol import Asker, Checker, RoleName
from deerflow.verify.reading import read_resolution, read_verdict

_DIFFERS = "A reviewer who answered the question independently came to another result."


def none(problem: Problem, role: RoleName) -> str:
    """No guidance."""
    return ""


class Loop:
    """Answers problems under a policy; any number of them at the same time.

    Args:
        asker: asks the roles.
        policy: which steps there are.
        checker: checks by code, None for none.
        guidance: a skill's text for a problem and a role.
        reference: the key by a question's id, for a policy that shows it.
        shuffle: a number is drawn from it once; the order of anonymous answers follows from that
            number and the question's id, so it does not depend on what runs beside it.

    Raises:
        UsageError: the policy shows the key, and there is none.
    """

    def __init__(
        self,
        asker: Asker,
        policy: Policy,
        checker: Checker | None = None,
        *,
        guidance: Guidance = none,
        reference: Callable[[str], str] | None = None,
        shuffle: Random,
    ) -> None:
        if policy.reference and reference is None:
            raise UsageError("The policy shows the key to the validator, and there is no key.")
        self._cast = Cast(asker, checker if policy.code_check else None, guidance)
        self._policy = policy
        self._reference = reference if policy.reference else None
        self._seed = shuffle.getrandbits(64)

    async def solve(self, problem: Problem) -> QuestionStatus:
        """Answer a problem. Every failure of a role and every limit is in the status."""
        course = Course(problem, self._cast)
        state: State
        try:
            if self._policy.validate:
                state = await self._validated(course)
            else:
                state = await self._unvalidated(course)
        except LimitError as error:
            state = "budget_exceeded"
            course.failed(error)
        except Fault as fault:
            state = "resolver_error" if fault.role == "resolver" else "validator_error"
            course.failed(fault)
        return course.status(state)

    async def _unvalidated(self, course: Course) -> State:
        """One answer, or the majority of several; nobody else has derived it."""
        if self._policy.samples:
            course.attempt = 1
            fault = await sampled(course, self._policy.samples)
            answer = most_sampled(course)
            course.answers = sum(c.voices.count("sample") for c in course.candidates)
            if answer is None:
                raise fault or Fault("resolver", "no_answer", "There is no answer.")
            course.choose(answer, "samples")
        else:
            answer = await self._resolve(course, "")
            course.choose(answer, "resolver")
        await course.check(answer, "resolver")
        return "unvalidated"

    async def _validated(self, course: Course) -> State:
        feedback = ""
        while course.attempt < self._policy.max_attempts:
            answer = await self._resolve(course, feedback)
            found = await self._examine(course, answer)
            if found is None:
                return "accepted"
            if found == "":
                course.note("oscillation")
                break
            feedback = prompts.CONTENT_FREE if self._policy.reference == "content_free" else found
        if self._policy.adjudicate and not self._reference:
            if await adjudicated(course, Random(f"{self._seed}:{course.problem.id}")):  # noqa: S311
                return "accepted"
        if self._policy.samples and await majority(course, self._policy.samples):
            return "accepted"
        course.climb("abstain", "exhausted")
        return "exhausted"

    # ---- the resolver ----

    async def _resolve(self, course: Course, feedback: str) -> Candidate:
        """The resolver's next answer, gone over by itself where the policy says so."""
        problem, last = course.problem, course.last
        course.attempt += 1
        prompt = prompts.retry(problem, last, feedback) if feedback else prompts.question(problem)
        if feedback:
            course.climb("resolve", "asked again")
        answer = await course.ask("resolver", "resolve", prompt, read_resolution, feedback=feedback)
        course.note_answer("resolve", answer)
        course.answers += 1
        if self._policy.self_check:
            prompt = prompts.self_check(problem, answer)
            try:
                answer = await course.ask("resolver", "self_check", prompt, read_resolution)
            except (Fault, LimitError):
                course.answered(answer)  # it stands as it was
                raise
            course.note_answer("self_check", answer)
        return course.answered(answer)

    # ---- the validator ----

    async def _examine(self, course: Course, answer: Candidate) -> str | None:
        """Hold the resolver's newest answer against the validator's and the code's.

        Returns:
            None when it is settled, "" when this pair of answers was there before, else what the
            resolver is to be told.
        """
        own = await self._blind(course)
        agrees = course.own is not None and course.agrees(course.own)
        if own is not None:
            course.note("compare", agrees=agrees)
        check = await course.check(answer, "resolver")
        if agrees and check != "refuted":
            course.choose(answer, "comparison")
            return None
        settled = await self._by_code(course, answer, own)
        if settled is not None:
            course.choose(settled, "code_check")
            return None
        if own is not None and course.again(own):
            return ""
        if agrees:
            return course.objection(answer)
        return await self._reviewed(course, answer)

    async def _blind(self, course: Course) -> Candidate | None:
        """The validator's own answer, derived once, from the question alone."""
        if not self._policy.blind:
            return None
        if course.own is None:
            prompt = prompts.question(course.problem)
            course.own = await course.ask("validator", "blind", prompt, read_resolution)
            course.note_answer("blind", course.own)
            return course.candidates.add(course.own, "validator")
        return course.candidates.find(course.own)

    async def _by_code(
        self, course: Course, answer: Candidate, own: Candidate | None
    ) -> Candidate | None:
        """The one of two answers that code verifies."""
        if answer.check in (None, "not_applicable"):
            return None
        course.climb("code_check", answer.check or "")
        if answer.check == "verified":
            return answer
        if own is not None and own is not answer:
            if await course.check(own, "validator") == "verified":
                return own
        return None

    async def _reviewed(self, course: Course, answer: Candidate) -> str | None:
        """Show the newest answer to the validator. Returns as `_examine`."""
        reference = self._reference(course.problem.id) if self._reference else ""
        given = course.last or answer.output
        prompt = prompts.review(course.problem, given, course.own, reference)
        verdict = await course.ask("validator", "review", prompt, read_verdict)
        checked = ResolverOutput(verdict.checked_answer)
        agrees = course.agrees(checked)
        course.note(
            "review",
            accepted=verdict.accepted,
            feedback=verdict.feedback,
            checked_answer=verdict.checked_answer,
            agrees=agrees,
        )
        course.checked = verdict.checked_answer
        theirs = None
        if checked.response:
            theirs = course.candidates.add(checked, "review", may_win=not reference)
        if verdict.accepted and agrees and answer.check != "refuted":
            course.choose(answer, "review")
            return None
        if course.own is None and theirs is not None and course.again(theirs):
            return ""
        told = (verdict.feedback or _DIFFERS, course.objection(answer))
        return "\n".join(part for part in told if part)
