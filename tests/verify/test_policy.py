"""Policies that make no sense are refused; the bound on calls holds."""

from __future__ import annotations

import pytest

from deerflow.errors import UsageError
from deerflow.verify.policy import Policy


def test_the_defaults() -> None:
    policy = Policy()
    assert (policy.max_attempts, policy.samples, policy.reference) == (3, 0, "")
    assert policy.validate and policy.blind and policy.code_check and policy.adjudicate
    assert not policy.self_check


def test_out_of_range() -> None:
    for attempts in (0, -1, 21):
        with pytest.raises(UsageError, match="max_attempts"):
            Policy(max_attempts=attempts)
    for samples in (-1, 100):
        with pytest.raises(UsageError, match="samples"):
            Policy(samples=samples)


def test_a_key_needs_somebody_to_show_it_to() -> None:
    with pytest.raises(UsageError, match="validator"):
        Policy(validate=False, reference="free")


def test_most_calls() -> None:
    assert Policy().most_calls == 3 * 2 + 1 + 1
    assert Policy(samples=5).most_calls == 3 * 2 + 1 + 1 + 5
    assert Policy(self_check=True).most_calls == 3 * 3 + 1 + 1
    assert Policy(validate=False).most_calls == 1
    assert Policy(validate=False, self_check=True).most_calls == 2
    assert Policy(validate=False, samples=6).most_calls == 6
