"""Questions of history: how many years lie between two years."""

from __future__ import annotations

import re

from deerflow.verify.facts import Check, Question

_YEAR = re.compile(
    r"(?P<zh>公元前|前)?\s*(?<![0-9.])(?:(?P<ad>AD|CE)\s*)?(?P<year>[0-9]{1,4})(?![0-9.])\s*年?(?:\s*(?P<era>BCE?|B\.C\.|AD|A\.D\.|CE)(?![A-Za-z]))?"
)
_ASK = re.compile(
    r"\bhow\s+many\s+years\b|\bhow\s+long\b|\bnumber\s+of\s+years\b|\byears\s+(?:apart|between|passed|elapsed)|多少年|几年|相隔|相距|历时"
)
_SPOILS = re.compile(
    r"\bcentur|\bdecade|\bmonth|\bday|\bborn|\bage\b|\bold\b|\binclusive|世纪|月|日|岁|首尾|包括"
)


def year_difference(question: Question) -> Check | None:
    """The years from one year to another; there is no year 0."""
    if not _ASK.search(question.lower) or _SPOILS.search(question.lower):
        return None
    found = list(_YEAR.finditer(question.raw))
    years = [_signed(match) for match in found]
    if len(years) != 2 or len(re.findall(r"[0-9]+", question.raw)) != 2:
        return None
    plain = [match for match in found if not (match["zh"] or match["era"] or match["ad"])]
    if any(int(match["year"]) < 100 for match in plain) or 0 in years:
        return None
    before, after = sorted(years)
    if plain and before < 0 < after and not re.search(r"公元前|\bAD\b|\bCE\b", question.raw):
        return None
    if plain and before > 0 > after:
        return None
    gap = after - before - (1 if before < 0 < after else 0)
    return Check("year_difference", "value", {"target": ["number", str(gap)], "form": "plain"})


def _signed(match: re.Match[str]) -> int:
    era = (match["era"] or "").replace(".", "")
    return -int(match["year"]) if match["zh"] or era.startswith("B") else int(match["year"])
