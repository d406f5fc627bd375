"""Criteria by whole words: what meets them and what only seems to."""

from __future__ import annotations

import pytest

from deerflow.exam.graders.wording import Wording

MET = [
    ("mentions trade or commerce", "It promoted Trade."),
    ("mentions trade or commerce", "Commerce grew."),
    ("mentions facing fear or danger or difficulty", "the ability to face fear"),
    ("identifies personification", "PERSONIFICATION!!!"),
    ("explains vividness or emotional effect", "it is vivid"),
    ("states pH equals 7", "The pH is 7."),
    ("states neither acidic nor basic or neutral", "It is neither acidic nor basic."),
    ("states neither acidic nor basic or neutral", "neutral"),
    ("mentions bravery or not giving up", "going on without giving up"),
    ("names both Yangtze and Yellow River", "the Yellow River and the Yangtze"),
    ("uses 'has' agreeing with 'He'", "He has finished his homework."),
    ("identifies 'have' as wrong", "'have' should not be used, 'has' should"),
    ("提到贸易或商业", "促进了贸易"),
]
UNMET = [
    ("mentions trade or commerce", "It did not promote trade."),
    ("mentions trade or commerce", "No commerce, never any trade"),
    ("mentions trade or commerce", "trademark"),
    ("mentions trade or commerce", ""),
    ("mentions facing fear or danger or difficulty", "facing the wall"),
    ("states pH equals 7", "The pH is 17."),
    ("states pH equals 7", "The pH is 7.5."),
    ("states pH equals 7", "The pH is not 7."),
    ("states neither acidic nor basic or neutral", "It is acidic, or basic."),
    ("states neither acidic nor basic or neutral", "It isn't neutral."),
    ("mentions bravery or not giving up", "I do not know."),
    ("mentions bravery or not giving up", "giving up"),
    ("names both Yangtze and Yellow River", "The Yellow River is longer."),
    ("correctly states the Yangtze is longer", "The Yellow River is longer."),
    ("uses 'has' agreeing with 'He'", "He have finished"),
    ("提到贸易或商业", "没有促进贸易"),
    ("correct final answer", "correct final answer"),
]


@pytest.mark.parametrize(("criterion", "response"), MET)
def test_met(criterion: str, response: str) -> None:
    assert Wording(response).meets(criterion)


@pytest.mark.parametrize(("criterion", "response"), UNMET)
def test_not_met(criterion: str, response: str) -> None:
    assert not Wording(response).meets(criterion)


def test_a_negation_ends_with_its_clause() -> None:
    assert Wording("It was not war, but trade.").meets("mentions trade")
    assert Wording("Not war. Trade!").meets("mentions trade")


def test_an_alias_stands_for_a_word() -> None:
    notes = "accept: Chang Jiang for Yangtze; sugar instead of glucose"
    assert Wording("Chang Jiang is longer", notes).meets("states the Yangtze is longer")
    assert Wording("water and sugar", notes).meets("mentions glucose")
    assert not Wording("Huang He is longer", notes).meets("states the Yangtze is longer")


def test_an_accepted_phrase_stands_for_the_criteria_that_share_a_word() -> None:
    wording = Wording("he was trusting to chance", "accept: trusting to chance")
    assert wording.meets("mentions reliance on luck or chance")
    assert not wording.meets("contrasts with hard work")
