"""What the probe says about a machine."""

from __future__ import annotations

from pathlib import Path

from deerflow.sandbox.premises import Premises
from deerflow.sandbox.probe import features, probe
from fakes.sandboxes import config


async def test_host_is_named_as_not_isolated(tmp_path: Path) -> None:
    premises = Premises(config(), tmp_path / "sandbox", None)
    await premises.open()
    try:
        finding = await probe(premises, ["host"])
    finally:
        await premises.close()
    assert finding.works and finding.report.level == "host"
    assert finding.report.features["weaknesses"] == ["nothing is isolated"]
    assert finding.report.python is None


async def test_reasons_come_in_order(tmp_path: Path) -> None:
    premises = Premises(config(), tmp_path / "sandbox", None, bwrap="/usr/bin/false")
    await premises.open()
    try:
        finding = await probe(premises, ["bwrap", "host"])
    finally:
        await premises.close()
    assert finding.report.level == "host"
    assert finding.report.reasons == ("bwrap: its processes ended at once",)
    assert list((tmp_path / "sandbox" / "shells").iterdir()) == []


def test_features_name_what_was_looked_at(tmp_path: Path) -> None:
    found = features(Premises(config(), tmp_path, None, bwrap=""))
    assert {"bwrap", "landlock_abi", "seccomp", "cgroup", "own_uid", "network"} <= found.keys()
    assert found["bwrap"] is None
