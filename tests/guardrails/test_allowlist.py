"""The allowlist: order of its parts, globs over names and arguments, broken settings."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.errors import ConfigError
from deerflow.guardrails.allowlist import AllowlistProvider
from deerflow.guardrails.protocol import Action


async def verdict(provider: AllowlistProvider, tool: str, **args: Any) -> str:
    return (await provider.evaluate(Action(tool, args, "ann", "t", "r", "lead"))).decision


@pytest.mark.parametrize(
    ("settings", "tool", "decision"),
    [
        ({}, "bash", "allow"),
        ({"denied_tools": ["bash"]}, "bash", "deny"),
        ({"denied_tools": ["bash"]}, "ls", "allow"),
        ({"allowed_tools": ["ls"]}, "ls", "allow"),
        ({"allowed_tools": ["ls"]}, "bash", "deny"),
        ({"allowed_tools": []}, "ls", "deny"),
        ({"allowed_tools": ["read_*"]}, "read_file", "allow"),
        ({"allowed_tools": ["bash"], "denied_tools": ["ba*"]}, "bash", "deny"),
        ({"allowed_tools": "ls", "default": "ask"}, "bash", "ask"),
        ({"default": "ask"}, "bash", "ask"),
    ],
)
async def test_lists_and_default(settings: Any, tool: str, decision: str) -> None:
    assert await verdict(AllowlistProvider(**settings), tool) == decision


async def test_the_first_rule_that_matches_wins_after_denied_and_before_allowed() -> None:
    provider = AllowlistProvider(
        allowed_tools=["bash", "ls"],
        denied_tools=["python"],
        rules=[
            {"tools": ["bash"], "args": {"command": "git status*"}, "decision": "allow"},
            {"tools": ["bash", "python"], "args": {"command": "git *"}, "decision": "ask"},
            {"tools": "bash", "args": {"command": "*rm *"}, "decision": "deny", "reason": "no"},
        ],
    )
    assert await verdict(provider, "bash", command="git status") == "allow"
    assert await verdict(provider, "bash", command="git push") == "ask"
    assert await verdict(provider, "python", command="git push") == "deny"
    assert await verdict(provider, "bash", command="rm x") == "deny"
    assert await verdict(provider, "bash", command="ls") == "allow"
    told = await provider.evaluate(Action("bash", {"command": "rm x"}, "a", "t", "r", "lead"))
    assert (told.reason, told.policy) == ("no", "rules[2]")


@pytest.mark.parametrize(
    ("glob", "args", "matched"),
    [
        ({"command": "*rm -rf*"}, {"command": "cd x && rm   -rf\ty"}, True),
        ({"command": "*rm -rf*"}, {"command": "rm -r -f y"}, False),
        ({"path": "/etc/*"}, {"path": ["a", {"deep": ["/etc/passwd"]}]}, True),
        ({"path": "/etc/*"}, {"other": "/etc/passwd"}, False),
        ({"*": "*secret*"}, {"other": {"my secret": 1}}, True),
        ({"count": "3"}, {"count": 3}, True),
        ({"force": "true"}, {"force": True}, True),
        ({"a": "*", "b": "*"}, {"a": "1"}, False),
    ],
)
async def test_arguments_by_their_texts(glob: Any, args: Any, matched: bool) -> None:
    rule = {"tools": "*", "args": glob, "decision": "deny"}
    provider = AllowlistProvider(rules=[rule])
    assert (await verdict(provider, "x", **args) == "deny") == matched


@pytest.mark.parametrize(
    ("paths", "decision"),
    [(["/safe/a", "/safe/b"], "allow"), (["/safe/a", "/etc/x"], "deny"), ([], "deny")],
)
async def test_a_rule_that_allows_wants_every_text_to_fit(paths: Any, decision: str) -> None:
    rule = {"tools": "*", "args": {"paths": "/safe/*"}, "decision": "allow"}
    provider = AllowlistProvider(rules=[rule], default="deny")
    assert await verdict(provider, "x", paths=paths) == decision


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rules": [{"tools": [], "decision": "deny"}]}, "rules[0].tools"),
        ({"rules": [{"tools": "a", "decision": "maybe"}]}, "rules[0].decision"),
        ({"rules": [{"tools": "a", "decision": "ask", "args": ["x"]}]}, "rules[0].args"),
        ({"rules": [{"tools": "a", "decision": "ask", "expires": 3}]}, "rules[0].expires"),
        ({"rules": [{"tools": "a", "decision": "ask", "expires_seconds": 0}]}, "expires_seconds"),
        ({"rules": ["delete"]}, "rules[0]"),
        ({"rules": {"tools": "a"}}, "rules: must be a list"),
        ({"allowed_tools": 7}, "allowed_tools"),
        ({"denied_tools": [7]}, "denied_tools"),
        ({"default": "perhaps"}, "default"),
    ],
)
def test_wrong_settings_are_named_with_their_place(settings: Any, said: str) -> None:
    with pytest.raises(ConfigError, match="guardrails.provider.config") as caught:
        AllowlistProvider(**settings)
    assert said in str(caught.value)


def test_every_wrong_rule_is_named() -> None:
    wrong = {"tools": "a", "decision": "no"}
    with pytest.raises(ConfigError) as caught:
        AllowlistProvider(rules=[wrong, {"tools": "a", "decision": "deny"}, wrong])
    assert len(caught.value.problems) == 2
