"""Biology: what a cross of one or two pairs of genes gives."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

from deerflow.exam.generators.drafts import Draft, Number, shown, three

TRAITS = (
    ("T", "tall", "short", "高茎", "矮茎", "pea plants", "豌豆"),
    ("R", "round", "wrinkled", "圆粒", "皱粒", "pea plants", "豌豆"),
    ("Y", "yellow", "green", "黄色子叶", "绿色子叶", "pea plants", "豌豆"),
    ("B", "black", "brown", "黑毛", "棕毛", "guinea pigs", "豚鼠"),
)
"""Letter, dominant and recessive trait in English and Chinese, and whose they are."""
CROSSES = (("Aa", "Aa"), ("Aa", "aa"), ("AA", "Aa"), ("AA", "aa"))


def offspring(one: str, two: str) -> list[str]:
    """All equally likely pairs, the dominant gene first: "Tt" and "Tt" give TT, Tt, Tt, tt."""
    return ["".join(sorted(pair)) for pair in product(one, two)]


def punnett(rng: Random, chinese: bool) -> Draft:
    """Shares of a cross of one pair of genes, or of two."""
    return rng.choice((_one_pair, _one_pair, _two_pairs))(rng, chinese)


def _one_pair(rng: Random, chinese: bool) -> Draft:
    letter, high, low, zh_high, zh_low, who, zh_who = rng.choice(TRAITS)
    asked = rng.choice(("dominant", "recessive", "heterozygous"))
    known = CROSSES[:2] if asked == "recessive" else CROSSES
    one, two = (
        each.replace("A", letter).replace("a", letter.lower()) for each in rng.choice(known)
    )
    children = offspring(one, two)
    tests = {
        "dominant": (letter, high, zh_high),
        "recessive": (letter.lower() * 2, low, zh_low),
        "heterozygous": (letter + letter.lower(), "heterozygous", "杂合子"),
    }
    mark, name, zh_name = tests[asked]
    value = Fraction(100 * sum(mark in child for child in children), len(children))
    small = letter.lower()
    if asked == "recessive":
        rule, zh_rule = (
            f"{low} ({small}) is recessive to {high} ({letter})",
            f"{zh_low}（{small}）对{zh_high}（{letter}）为隐性",
        )
    else:
        rule, zh_rule = (
            f"{high} ({letter}) is dominant over {low} ({small})",
            f"{zh_high}（{letter}）对{zh_low}（{small}）为显性",
        )
    text = (
        f"{zh_who}的{zh_rule}。{one} 与 {two} 杂交，后代中{zh_name}所占的百分比预计是多少？"
        if chinese
        else f"In {who}, {rule}. "
        f"What percentage of the offspring of {one} x {two} is expected to be {name}?"
    )
    mistakes: list[Number] = [each for each in (75, 25, 50, 100, 0) if each != value]
    rng.shuffle(mistakes)
    wrong = tuple(f"{shown(each)}%" for each in three(value, mistakes))
    key = f"{shown(value)}%"
    level = "medium" if asked == "heterozygous" else "easy"
    return Draft("biology", level, text, key, wrong, (shown(value),))


def _two_pairs(rng: Random, chinese: bool) -> Draft:
    one, two = rng.sample(TRAITS[:3], 2)
    genes = f"{one[0]}{one[0].lower()}{two[0]}{two[0].lower()}"
    first, second = rng.random() < 0.5, rng.random() < 0.5
    shares = [Fraction(3 if dominant else 1, 4) for dominant in (first, second)]
    value = shares[0] * shares[1]
    names = [f"{each[1 if good else 2]}" for each, good in ((one, first), (two, second))]
    zh_names = [f"{each[3 if good else 4]}" for each, good in ((one, first), (two, second))]
    text = (
        f"豌豆的{one[3]}（{one[0]}）对{one[4]}（{one[0].lower()}）为显性，"
        f"{two[3]}（{two[0]}）对{two[4]}（{two[0].lower()}）为显性，两对基因独立遗传。"
        f"{genes} 自交，后代中{zh_names[0]}且{zh_names[1]}的个体预计占几分之几？"
        if chinese
        else f"In pea plants, {one[1]} ({one[0]}) is dominant over {one[2]} ({one[0].lower()}) and "
        f"{two[1]} ({two[0]}) over {two[2]} ({two[0].lower()}); the two pairs of genes assort "
        f"independently. What fraction of the offspring of {genes} x {genes} is expected to be "
        f"{names[0]} and {names[1]}?"
    )
    sixteenths = [Fraction(each, 16) for each in (9, 3, 1, 4, 12)]
    mistakes = [each for each in sixteenths if each != value]
    wrong = tuple(f"{each.numerator}/{each.denominator}" for each in mistakes[:3])
    key = f"{value.numerator}/{value.denominator}"
    return Draft("biology", "hard", text, key, wrong, (key,))
