"""What counts as new, and when a call is refused for it."""

from collections import Counter

from deerflow.config.tools import LoopDetectionConfig
from deerflow.middlewares.progress import MARK, Progress, identity


def progress(**config: int) -> Progress:
    return Progress(LoopDetectionConfig(**config), frozenset({"read"}))


def test_identity_ignores_the_order_of_keys_and_nothing_else():
    assert identity("t", {"a": 1, "b": 2}) == identity("t", {"b": 2, "a": 1})
    assert identity("t", {"a": 1}) != identity("t", {"a": "1"})
    assert identity("t", {}) != identity("u", {})
    assert identity("t", {"bad": "\ud800"})


def test_a_new_effect_makes_room_and_a_new_read_does_not():
    held = progress()
    for _ in range(4):
        held.observe("bash", {"c": "ls"}, "same", failed=False)
    held.observe("read", {"p": "a"}, "fresh text", failed=False)
    assert held.judge("bash", {"c": "ls"}, Counter()) is not None
    held.observe("bash", {"c": "touch x"}, "", failed=False)
    assert held.judge("bash", {"c": "ls"}, Counter()) is None


def test_another_result_of_the_same_call_is_new():
    held = progress()
    for number in range(30):
        assert held.observe("read", {"p": "log"}, f"a\nb\n{number}", failed=False) is None
    assert held.idle == 0


def test_the_same_failure_of_varied_calls_is_not_new():
    held = progress()
    held.observe("bash", {"c": "0"}, "denied", failed=True)
    for number in range(1, 5):
        held.observe("bash", {"c": str(number)}, "denied", failed=True)
    assert held.idle == 4 and held.by_tool["bash"] == 4
    held.observe("bash", {"c": "5"}, "other failure", failed=True)
    assert held.idle == 0


def test_an_empty_read_is_new_once():
    held = progress()
    for number in range(3):
        held.observe("read", {"p": str(number)}, "", failed=False)
    assert held.idle == 2


def test_calls_of_one_turn_count_before_they_ran():
    held, ahead = progress(hard_limit=3), Counter[str]()
    verdicts = [held.judge("bash", {"c": "x"}, ahead) for _ in range(4)]
    assert [verdict is None for verdict in verdicts] == [True, True, False, False]


def test_forget_starts_anew():
    held = progress()
    for _ in range(5):
        held.observe("read", {"p": "a"}, "text", failed=False)
    held.forget()
    assert held.judge("read", {"p": "a"}, Counter()) is None
    assert held.observe("read", {"p": "a"}, "text", failed=False) is None
    assert held.idle == 0


def test_findings_tell_rule_and_numbers_without_the_mark():
    held = progress()
    for _ in range(3):
        finding = held.observe("bash", {"c": "ls"}, "same", failed=False)
    assert finding is not None
    assert (finding.rule, finding.used, finding.limit) == ("identical_calls", 3, 5)
    assert MARK.strip() not in finding.text
