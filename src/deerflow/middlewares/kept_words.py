"""What a user said that must not be lost: whole messages while they fit, limits always."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from deerflow.models.usage import estimate_text

PASTE = 4_000
"""Characters above which a message counts as one with pasted matter: its sentences go first."""
LONGEST = 1_000
"""Characters of one sentence that stay: around the word that makes it a limit."""
SEARCHED = 20_000
"""Characters of one sentence that are looked at: prose has no longer ones, and time is short."""
LISTED = 30
"""Lines of a list that stay with the sentence that introduces it."""
ANSWER = "Answer to the question"
"""Begins what the user said when asked: short answers are limits, and stay in one piece."""
GAP = "\u2026"
"""Stands where words were left out."""

_ENGLISH = (
    r"must|mustn'?t|never|always|only|at (?:the )?(?:most|least|latest|earliest)|no (?:more|less|"
    r"fewer|later|earlier|longer) than|(?:more|less|fewer|later|earlier|longer|rather) than|not|"
    r"no|nope|instead|actually|correct(?:ion|ed|s)?|wrong|mistaken?|limit(?:s|ed)?|budget|deadline|"
    r"due|us(?:e|ing)|don'?t|doesn'?t|didn'?t|isn'?t|aren'?t|wasn'?t|won'?t|shouldn'?t|can'?t|"
    r"cannot|should|ha(?:ve|s) to|needs? to|requir(?:e[sd]?|ements?)|forbid(?:den|s)?|avoid|"
    r"prefer|except|unless|without|max(?:imum|imal)?|min(?:imum|imal)?|exactly|ensure|make sure|"
    r"remember|important|note that|keep|stick|chang(?:e[sd]?|ing)|replace|rename|switch|i meant?|"
    r"stop|allowed|up to|under|within|before|after|until|by|ignore|skip|leave|from now on|"
    r"any ?more|nothing|none|\w+er than|tops|cap(?:ped)?|forget|scratch that|oops|sorry|misspoke|"
    r"drop|remove|delete|hands off|steer clear|(?:answer|reply|respond|write|do it) in|call me|"
    r"just the"
)
_GERMAN = (
    r"muss|m\u00fcssen|musst|darf|d\u00fcrfen|nie(?:mals)?|immer|nur|h\u00f6chstens|mindestens|"
    r"maximal|minimal|nicht|kein\w*|stattdessen|sondern|eigentlich|korrektur|korrigier\w*|falsch|"
    r"grenze|obergrenze|frist|bis|soll\w*|verwende\w*|benutz\w*|nutze|statt|ohne|au(?:\u00df|ss)er|"
    r"vermeide\w*|bitte nur|ab sofort|nein|nichts|ausschlie(?:\u00df|ss)lich|sp\u00e4testens|"
    r"fr\u00fchestens|lieber|weniger als|mehr als|meinte|vergiss|\u00e4nder\w*|lass(?:e|t)?|"
    r"auf deutsch|antworte\w*|halte dich|verboten|entfern\w*|streich\w*"
)
_FRENCH = (
    r"dois|doit|doivent|devez|faut|jamais|toujours|seulement|uniquement|au plus|au moins|pas|"
    r"plut\u00f4t|au lieu|en fait|erreur|faux|limite|d\u00e9lai|utilis\w*|sans|sauf|\u00e9vite\w*|"
    r"maximum|minimum|avant|d\u00e9sormais|non|ne|rien|aucune?|moins de|plus de|r\u00e9pond\w*|"
    r"supprim\w*|interdit\w*|pr\u00e9f\u00e8r\w*|voulais dire|corrig\w*|gard(?:e|ez)|oublie\w*"
)
_CHINESE = (
    "\u4e0d\u8981|\u4e0d\u80fd|\u4e0d\u53ef|\u4e0d\u5f97|\u4e0d\u51c6|\u4e0d\u8bb8|\u4e0d\u7528|"
    "\u4e0d\u5fc5|\u5fc5\u987b|\u52a1\u5fc5|\u4e00\u5b9a|\u6700\u591a|\u6700\u5c11|\u81f3\u5c11|"
    "\u81f3\u591a|\u6700\u665a|\u6700\u65e9|\u4e0d\u8d85\u8fc7|\u4e0d\u5c11\u4e8e|\u4e0d\u4f4e"
    "\u4e8e|\u4e0d\u5927\u4e8e|\u4ee5\u5185|\u4ee5\u4e0b|\u4ee5\u4e0a|\u4e4b\u524d|\u6539|\u6362"
    "\u6210|\u5e94\u8be5|\u5e94\u5f53|\u5e94\u662f|\u5e94\u4e3a|\u53ea|\u4ec5|\u522b|\u52ff|\u7981"
    "\u6b62|\u907f\u514d|\u7ea0\u6b63|\u66f4\u6b63|\u9519|\u4e0d\u5bf9|\u4e0d\u662f|\u800c\u662f|"
    "\u800c\u4e0d|\u5176\u5b9e|\u5b9e\u9645\u4e0a|\u9650\u5236|\u4e0a\u9650|\u4e0b\u9650|\u9884"
    "\u7b97|\u622a\u6b62|\u671f\u9650|\u8bf7\u7528|\u4f7f\u7528|\u8981\u7528|\u603b\u662f|\u6c38"
    "\u8fdc|\u4ece\u4e0d|\u6bcf\u6b21|\u9700\u8981|\u8981\u6c42|\u8bb0\u4f4f|\u6ce8\u610f|\u9664"
    "\u4e86|\u9664\u975e|\u4fdd\u6301|\u4fdd\u7559|\u7edf\u4e00|\u4ece\u73b0\u5728|\u4ee5\u540e|"
    "\u63a7\u5236\u5728|\u5220|\u5c11\u4e8e|\u591a\u4e8e|\u4f4e\u4e8e|\u9ad8\u4e8e|"
    "\u65e9\u4e8e|\u665a\u4e8e|\u65e0\u9700|\u9650|\u53bb\u6389|\u4e0d\u542b|\u4e0d\u5f97|"
    "\u6211\u8bf4\u7684\u662f|\u6211\u662f\u8bf4|\u53eb\u6211|\u6700\u597d|\u524d\u4ea4|"
    "\u56de\u7b54"
)
_DIRECTIVE = re.compile(
    rf"(?<!\w)(?:{ANSWER}|{_ENGLISH}|{_GERMAN}|{_FRENCH})(?!\w)|(?<!\w)n['\u2019](?=\w)|{_CHINESE}",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+(?![a-z0-9\u00df-\u00ff])"
    r"|(?<=[\u3002\uff01\uff1f\uff1b])|\n+"
)
"""Where a sentence ends; not before a small letter or a digit ("e.g. ten", "max. 5")."""
_LIST = re.compile(r"\s*(?:[-*+\u2022\u00b7]|\(?\w{1,3}[.)\u3001])\s*\S")
_BREAK = re.compile(r"[\s,;\u3001\uff0c]")


@dataclass(slots=True)
class _Said:
    """A message of the user in parts: sentence, whether it is a limit, whether it holds a number.

    An empty sentence stands for one that was said again later.
    level 0 keeps all of it; 1 the first sentence, numbers and limits; 2 the first sentence and
    limits; 3 limits; 4 nothing.
    """

    text: str
    parts: list[tuple[str, bool, bool]] = field(default_factory=list[tuple[str, bool, bool]])
    level: int = 0

    @property
    def directive(self) -> bool:
        return any(limit for _, limit, _ in self.parts)

    def shown(self) -> str:
        """What stays of it; a gap stands for each run of sentences that was left out."""
        if self.level == 0:
            return self.text
        kept: list[str] = []
        for index, (sentence, limit, number) in enumerate(self.parts):
            first = index == 0 and self.level < 3
            wanted = limit or first or (number and self.level == 1)
            if sentence and wanted and self.level < 4:
                kept.append(sentence)
            elif kept and kept[-1] != GAP:
                kept.append(GAP)
        return "\n".join(kept) if any(line != GAP for line in kept) else ""


def is_directive(sentence: str) -> bool:
    """Whether a sentence may be a correction or a limit; rather too often than too rarely."""
    return _DIRECTIVE.search(sentence) is not None


def sentences(text: str) -> list[str]:
    """The sentences of a text, stripped; a list stays with the sentence that introduces it."""
    pieces = [piece.strip() for piece in _END.split(text) if piece and piece.strip()]
    joined: list[str] = []
    lines = 0
    for piece in pieces:
        heads_list = bool(joined) and joined[-1].partition("\n")[0].endswith((":", "\uff1a"))
        if heads_list and lines < LISTED and _LIST.match(piece):
            joined[-1] += "\n" + piece
            lines += 1
        else:
            joined.append(piece)
            lines = 0
    return joined


def kept_words(texts: Sequence[str], budget: int, most: int) -> list[str]:
    """What stays of a user's messages, oldest first; those of which nothing stays are left out.

    All of it while it fits into `budget`. Then, oldest first, messages without a limit shrink to
    their first sentence and numbers, then the others to those and their limits; then first
    sentences go. Sentences with a limit stay up to `most`; beyond that those of long pastes go
    first, then the oldest.

    Args:
        texts: the messages.
        budget: tokens for them.
        most: tokens that sentences with limits may take.
    """
    said = [_Said(text.strip()) for text in texts if text.strip()]
    total = sum(estimate_text(one.text) for one in said)
    if total > budget:
        for one in said:
            whole = one.text.startswith(ANSWER) and len(one.text) <= LONGEST
            pieces = [one.text] if whole else sentences(one.text)
            one.parts = [_part(piece) for piece in pieces]
        _without_repeats(said)
        total = _shrink(said, total, budget, most)
    return [shown for one in said if (shown := one.shown())]


def _shrink(said: Sequence[_Said], total: int, budget: int, most: int) -> int:
    plain = [one for one in said if not one.directive]
    rules = [one for one in said if one.directive]
    pasted = [one for one in rules if len(one.text) > PASTE]
    steps = [
        (budget, 1, plain),
        (budget, 1, rules),
        (budget, 2, said),
        (budget, 3, said),
        (most, 4, pasted),
        (most, 4, rules),
    ]
    for limit, level, some in steps:
        for one in some:
            if total <= limit:
                return total
            before = estimate_text(one.shown())
            one.level = max(one.level, level)
            total += estimate_text(one.shown()) - before
    return total


def _part(sentence: str) -> tuple[str, bool, bool]:
    found = _DIRECTIVE.search(sentence, 0, SEARCHED)
    if len(sentence) > LONGEST:
        sentence = _around(sentence, found.start() if found else 0)
    return sentence, found is not None, any(sign.isdigit() for sign in sentence)


def _around(sentence: str, at: int) -> str:
    """Part of an overlong sentence around a place, cut between words."""
    start = max(0, min(at - LONGEST // 3, len(sentence) - LONGEST))
    end = start + LONGEST
    if start and (gap := _BREAK.search(sentence, start, at)):
        start = gap.end()
    head = GAP if start else ""
    return head + sentence[start:end] + (GAP if end < len(sentence) else "")


def _without_repeats(said: Sequence[_Said]) -> None:
    """A sentence that was said again stays where it was said last."""
    seen: set[str] = set()
    for one in reversed(said):
        fresh: list[tuple[str, bool, bool]] = []
        for part in reversed(one.parts):
            fresh.append(("", False, False) if part[0] in seen else part)
            seen.add(part[0])
        one.parts = fresh[::-1]
