"""Crosses of one pair of alleles: ratios, shares and chances of the offspring."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import product

from deerflow.verify.facts import Check, Question
from deerflow.verify.readers import number

_CROSS = re.compile(
    r"(?<![A-Za-z])([A-Za-z])([A-Za-z])\)?\s*(?:\*|x|X|and|with|和|与)\s*(?:an?\s+)?\(?([A-Za-z])([A-Za-z])(?![A-Za-z])"
)
_OFFSPRING = re.compile(
    r"\bcross|\boffspring|\bpunnett|\bgenotyp|\bphenotyp|\bparents?\b|\bbreed|杂交|后代|子代|基因型|表现型|表型|交配"
)
_SPOILS = re.compile(
    r"\bincomplete\b|\bcodominan|\bsex-linked|\bx-linked|\blethal|不完全显性|共显性|伴性|致死"
)
_RATIO = re.compile(r"\bratio|比例|之比|分离比|比为|比是")
_PHENOTYPE = re.compile(r"\bphenotyp|表现型|表型|性状")
_GENOTYPE = re.compile(r"\bgenotyp|基因型")
_SHARE = re.compile(
    r"\bprobabilit|\bchance|\bpercent|%|\bfraction|\bproportion|概率|可能性|百分|几分之几|比例|占"
)
_RECESSIVE = re.compile(r"\brecessive|隐性")
_DOMINANT = re.compile(r"\bdominant|显性")


def punnett(question: Question) -> Check | None:
    """The ratio of a cross, or the share of one kind of offspring."""
    if not _OFFSPRING.search(question.lower) or _SPOILS.search(question.lower):
        return None
    crosses = {found.groups() for found in _CROSS.finditer(question.raw)}
    if len(crosses) != 1:
        return None
    alleles = next(iter(crosses))
    if len({each.lower() for each in alleles}) != 1:
        return None
    offspring = Counter("".join(sorted(pair)) for pair in product(alleles[:2], alleles[2:]))
    big, small = alleles[0].upper(), alleles[0].lower()
    counts = [offspring[big + big], offspring[big + small], offspring[small + small]]
    share = _share(question, counts, big, small)
    if share is not None:
        facts = {"target": number(share), "form": "plain"}
        return Check("punnett_share", "value", facts)
    return _ratio(question, counts)


def _ratio(question: Question, counts: list[int]) -> Check | None:
    if not _RATIO.search(question.lower):
        return None
    text = question.lower
    near = re.search(
        r"\b(?:pheno|geno)typ\w*\s+ratio|ratio\s+of\s+(?:the\s+)?(?:pheno|geno)typ", text
    )
    text = near.group() if near else text
    phenotype, genotype = "phenotyp" in text or _PHENOTYPE.search(text), _GENOTYPE.search(text)
    if bool(phenotype) == bool(genotype):
        return None
    parts = [counts[0] + counts[1], counts[2]] if phenotype else counts
    parts = [part for part in parts if part]
    return Check("punnett_ratio", "ratio", {"target": parts}) if len(parts) > 1 else None


def _share(question: Question, counts: list[int], big: str, small: str) -> Fraction | None:
    """The share that is asked for, of one genotype or of a dominant or recessive trait."""
    if not _SHARE.search(question.lower) or re.search(r"\bratio\b|之比|分离比", question.lower):
        return None
    rest = _CROSS.sub(" ", question.raw)
    asked = [
        count
        for pairs, count in (
            ((big + big,), counts[0]),
            ((big + small, small + big), counts[1]),
            ((small + small,), counts[2]),
        )
        if any(re.search(rf"(?<![A-Za-z]){pair}(?![A-Za-z])", rest) for pair in pairs)
    ]
    recessive = _RECESSIVE.search(question.lower) is not None
    dominant = _DOMINANT.search(question.lower) is not None
    if re.search(r"\b(?:homo|hetero)zyg|纯合|杂合", question.lower):
        hetero = re.search(r"\bheterozyg|杂合", question.lower) is not None
        return Fraction(counts[1], 4) if hetero and not asked and not recessive else None
    if len(asked) == 1 and not dominant:
        return Fraction(asked[0], 4)
    if asked or recessive == dominant:
        return None
    return Fraction(counts[2] if recessive else counts[0] + counts[1], 4)
