"""The passport: who holds it, what it permits, which limits hold, and broken files."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ConfigError
from deerflow.guardrails.oap import FILE_LIMIT, OapProvider, passport_file
from deerflow.guardrails.protocol import Action, Verdict

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
EUROS = {"currency_limits": {"EUR": {"max_per_tx": 5}}}
PASSPORT: dict[str, Any] = {
    "passport_id": "550e8400-e29b-41d4-a716-446655440000",
    "kind": "template",
    "spec_version": "oap/1.0",
    "owner_id": "org_1",
    "owner_type": "org",
    "assurance_level": "L0",
    "status": "active",
    "capabilities": [{"id": "data.file.read"}],
    "limits": {},
    "regions": [],
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
    "version": "1.0.0",
}


def write(folder: Path, **fields: Any) -> Path:
    file = folder / "agent.json"
    file.write_text(json.dumps({**PASSPORT, **fields}))
    return file


def made(folder: Path, settings: dict[str, Any] | None = None, **fields: Any) -> OapProvider:
    write(folder, **fields)
    return OapProvider(file=folder / "agent.json", clock=lambda: NOW, **(settings or {}))


async def ask(provider: OapProvider, tool: str, **args: Any) -> Verdict:
    return await provider.evaluate(Action(tool, args, "ann", "t", "r", "lead"))


@pytest.mark.parametrize(
    ("fields", "decision"),
    [
        ({}, "allow"),
        ({"status": "draft"}, "deny"),
        ({"status": "suspended"}, "deny"),
        ({"status": "revoked"}, "deny"),
        ({"expires_at": "2026-06-01T00:00:01Z"}, "allow"),
        ({"expires_at": "2026-06-01T00:00:00Z"}, "deny"),
        ({"expires_at": "2026-05-31T22:00:00-03:00"}, "allow"),
        ({"expires_at": "2026-05-31"}, "deny"),
    ],
)
async def test_the_holder(tmp_path: Path, fields: Any, decision: str) -> None:
    provider = made(tmp_path, **fields)
    assert (await ask(provider, "read_file", path="a")).decision == decision
    assert (await ask(provider, "calculator")).decision == decision  # nothing is free for it


async def test_capabilities_permit_their_tools_and_nothing_else(tmp_path: Path) -> None:
    own = {"id": "acme.crm", "params": {"tools": ["crm_*"]}}
    provider = made(
        tmp_path,
        {"tools": {"mcp.tool.execute": ["github_*"]}},
        capabilities=["data.file.read", own, {"id": "mcp.tool.execute"}],
    )
    for tool in ("read_file", "ls", "crm_find", "github_issues", "ask_clarification"):
        assert (await ask(provider, tool)).decision == "allow", tool
    for tool in ("write_file", "bash", "task", "gitlab_issues"):
        verdict = await ask(provider, tool)
        assert verdict.decision == "deny", tool
        assert "oap.unknown_capability" in verdict.reason


@pytest.mark.parametrize(
    ("tool", "limits", "args", "said"),
    [
        ("read_file", {"allowed_paths": ["/mnt/data/*"]}, {"path": "/mnt/data/a/b"}, ""),
        ("read_file", {"allowed_paths": ["/mnt/data"]}, {"path": "/mnt/data2"}, "path_not_allowed"),
        ("read_file", {"allowed_paths": ["/a"]}, {"path": "/a/../etc/passwd"}, "path_not_allowed"),
        ("read_file", {"allowed_paths": ["/a"]}, {}, "path_not_allowed"),
        ("read_file", {"blocked_patterns": [".ssh"]}, {"path": "/a/.ssh/key"}, "blocked_pattern"),
        ("bash", {"allowed_commands": ["git", "ls"]}, {"command": "git log"}, ""),
        ("bash", {"allowed_commands": ["git"]}, {"command": "git log; rm x"}, "command_not"),
        ("bash", {"allowed_commands": ["git"]}, {"command": "git log\nrm x"}, "command_not"),
        ("bash", {"allowed_commands": ["git"]}, {"command": "rm x"}, "command_not"),
        ("bash", {"allowed_commands": ["git"]}, {}, "command_not"),
        ("python", {"allowed_commands": ["print*"]}, {"code": "print(1)"}, "command_not"),
        ("python", {"allowed_commands": ["*"]}, {"code": "print(1)"}, ""),
        ("bash", {"blocked_patterns": ["rm -rf"]}, {"command": "rm   -rf x"}, "blocked_pattern"),
        ("bash", {"max_execution_time": 5}, {"command": "ls"}, ""),
        ("web_fetch", {"allowed_domains": ["a.org"]}, {"url": "https://x.a.org/y"}, ""),
        ("web_fetch", {"allowed_domains": ["a.org"]}, {"url": "https://ba.org"}, "domain_not"),
        ("web_fetch", {"allowed_domains": ["a.org"]}, {"url": "https://a.org@b.org"}, "domain_not"),
        ("web_fetch", {"blocked_domains": ["*.b.org"]}, {"url": "http://b.org"}, "domain_blocked"),
        ("pay", {"max_amount": 10}, {"amount": 10}, ""),
        ("pay", {"max_amount": 10}, {"amount": 10.5}, "limit_exceeded"),
        ("pay", {"max_amount": 10}, {"amount": "10"}, "invalid_context"),
        ("pay", {"max_amount": 10}, {"amount": -1}, "invalid_context"),
        ("pay", {"max_amount": 10}, {"amount": True}, "invalid_context"),
        ("pay", EUROS, {"amount": 4, "currency": "EUR"}, ""),
        ("pay", EUROS, {"amount": 6, "currency": "EUR"}, "limit_exceeded"),
        ("pay", EUROS, {"amount": 4}, "currency_unsupported"),
        (
            "pay",
            {"currency_limits": {"EUR": {"max_per_tx": 5, "daily_cap": 9}}},
            {"amount": 4, "currency": "EUR"},
            "daily_cap cannot be checked",
        ),
        ("pay", {"moon_phase": "full"}, {"amount": 1}, "moon_phase cannot be checked"),
    ],
)  # fmt: skip
async def test_limits(tmp_path: Path, tool: str, limits: Any, args: Any, said: str) -> None:
    names = ["data.file.read", "system.command.execute", "web.fetch", "payments.charge"]
    provider = made(
        tmp_path,
        {"tools": {"payments.charge": ["pay"]}},
        capabilities=names,
        limits=dict.fromkeys(names, limits),
    )
    verdict = await ask(provider, tool, **args)
    assert verdict.decision == ("deny" if said else "allow")
    assert said in verdict.reason


async def test_a_limit_that_something_else_enforces_can_be_left_to_it(tmp_path: Path) -> None:
    limits = {"pay": {"moon": 1, "currency_limits": {"EUR": {"max_per_tx": 5, "daily_cap": 9}}}}
    settings = {"tools": {"pay": ["pay"]}, "ignored_limits": ["moon", "daily_cap"]}
    provider = made(tmp_path, settings, capabilities=["pay"], limits=limits)
    assert (await ask(provider, "pay", amount=5, currency="EUR")).decision == "allow"
    assert (await ask(provider, "pay", amount=6, currency="EUR")).decision == "deny"


async def test_calls_per_minute(tmp_path: Path) -> None:
    moments = [NOW]
    write(tmp_path, limits={"data.file.read": {"max_calls_per_minute": 2}})
    provider = OapProvider(file=tmp_path / "agent.json", clock=lambda: moments[0])
    seen = [(await ask(provider, "ls")).decision for _ in range(3)]
    moments[0] += datetime.timedelta(seconds=60)
    seen.append((await ask(provider, "ls")).decision)
    assert seen == ["allow", "allow", "deny", "allow"]


async def test_a_revocation_holds_at_once_and_a_broken_file_permits_nothing(
    tmp_path: Path,
) -> None:
    provider = made(tmp_path)
    assert (await ask(provider, "ls")).decision == "allow"
    write(tmp_path, status="revoked")
    assert (await ask(provider, "ls")).decision == "deny"
    (tmp_path / "agent.json").write_text("{")
    with pytest.raises(ValueError, match=r".*"):
        await ask(provider, "ls")
    (tmp_path / "agent.json").unlink()
    with pytest.raises(OSError, match=r".*"):
        await ask(provider, "ls")


async def test_rules_tighten_what_the_passport_permits_and_never_widen_it(tmp_path: Path) -> None:
    rules = [
        {"tools": "ls", "decision": "ask"},
        {"tools": "grep", "decision": "deny"},
        {"tools": "*", "decision": "allow"},
    ]
    provider = made(tmp_path, {"rules": rules})
    seen = [(await ask(provider, tool)).decision for tool in ("ls", "grep", "glob", "bash")]
    assert seen == ["ask", "deny", "allow", "deny"]


def test_a_passport_is_named_by_its_id_or_its_file(tmp_path: Path) -> None:
    def named(passport: str | None) -> Path:
        return passport_file(passport, folder=tmp_path / "ids", base=tmp_path)

    assert named("agent") == tmp_path / "ids" / "agent.json"
    for name in ("agent.json", "./agent.json", str(tmp_path / "agent.json")):
        assert named(name) == tmp_path / "agent.json"
    for name in ("", None):
        with pytest.raises(ConfigError, match=r"guardrails\.passport"):
            named(name)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        json.dumps({**PASSPORT, "passport_id": ""}),
        json.dumps({**PASSPORT, "status": "fine"}),
        json.dumps({**PASSPORT, "spec_version": "oap/2.0"}),
        json.dumps({**PASSPORT, "capabilities": None}),
        json.dumps({**PASSPORT, "capabilities": [{"no": "id"}]}),
        json.dumps({**PASSPORT, "capabilities": [{"id": "a", "params": {"tools": "x"}}]}),
        json.dumps({**PASSPORT, "limits": []}),
        json.dumps({**PASSPORT, "limits": {"a": 1}}),
        json.dumps({**PASSPORT, "expires_at": "soon"}),
        json.dumps({**PASSPORT, "expires_at": 7}),
        json.dumps(PASSPORT)[: len(json.dumps(PASSPORT)) // 2],
        " " * (FILE_LIMIT + 1),
    ],
)
def test_a_broken_passport_is_a_problem_of_the_configuration(tmp_path: Path, content: str) -> None:
    (tmp_path / "agent.json").write_text(content)
    with pytest.raises(ConfigError, match=r"guardrails\.passport"):
        OapProvider(file=tmp_path / "agent.json")


def test_a_missing_passport_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"guardrails\.passport"):
        OapProvider(file=tmp_path / "agent.json")


def test_a_pipe_in_place_of_a_passport_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "agent.json")
    with pytest.raises(ConfigError, match=r"guardrails\.passport"):
        OapProvider(file=tmp_path / "agent.json")
