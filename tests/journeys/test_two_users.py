"""Two users on one database, interleaved: nothing of one is ever visible to the other."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from deerflow import DeerFlowClient
from deerflow.client.account import Goals, Models, Pending, UserMemory
from deerflow.client.agents import Agents, Skills
from deerflow.client.conversations import Artifacts, Threads, Uploads
from deerflow.errors import DeerFlowError
from deerflow.lead.profiles import LeadProfile
from deerflow.wiring.harness import Harness, open_harness
from fakes.harness import loaded, scripted_config

USERS = ("ann", "bob")
PARTS = {
    "threads": Threads,
    "uploads": Uploads,
    "artifacts": Artifacts,
    "memory": UserMemory,
    "goals": Goals,
    "approvals": Pending,
    "models": Models,
    "agents": Agents,
    "skills": Skills,
}
OWN = {"chat", "stream", "resume"}
"""Methods of the client itself."""


def secret(user: str) -> str:
    """A word that only this user's data hold."""
    return f"secret{user}"


def write(user: str) -> dict[str, Any]:
    path = f"/mnt/user-data/outputs/{secret(user)}.md"
    return {"name": "write_file", "args": {"path": path, "content": secret(user)}}


def task(user: str) -> dict[str, Any]:
    prompt = f"child of {secret(user)}"
    return {
        "name": "task",
        "args": {
            "description": prompt,
            "prompt": prompt,
            "subagent_type": "general-purpose",
        },
    }


def script() -> list[dict[str, Any]]:
    """For each user: a file, a child, and a command that needs approval; words in any order."""
    turns: list[dict[str, Any]] = []
    for user in USERS:
        word = secret(user)
        turns += [
            {"when": f"child of {word}", "text": f"found {word}", "times": 99},
            {"when": f"do {word}", "calls": [write(user), task(user)]},
            {
                "when": f"do {word}",
                "calls": [{"name": "bash", "args": {"command": f"echo {word}"}}],
            },
            {"when": f"do {word}", "text": f"done {word}", "times": 99},
            {"when": f"say {word}", "text": f"said {word}", "times": 99},
        ]
    return turns


@asynccontextmanager
async def both(home: Path) -> AsyncGenerator[Harness]:
    config = scripted_config(
        [],
        database={"backend": "sqlite"},
        sandbox={"use": "host"},
        memory={"backend_config": {"storage": "file"}},
        guardrails={
            "enabled": True,
            "provider": {
                "use": "allowlist",
                "config": {"rules": [{"tools": ["bash"], "decision": "ask"}]},
            },
        },
    )
    raw = config.model_dump(by_alias=True, exclude_unset=True)
    raw["models"] = [
        {
            "name": "scripted",
            "use": "deerflow.models.scripted:ScriptedChatModel",
            "script": script(),
            "follow": "transcript",
        }
    ]
    async with open_harness(loaded(type(config).model_validate(raw), home), {}) as harness:
        yield harness


def visible(value: Any) -> str:
    """Everything in a value, as one text."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    return json.dumps(value, default=_inside)


def _inside(value: Any) -> str:
    return visible(vars(value)) if hasattr(value, "__dict__") else str(value)


async def fill(client: DeerFlowClient, user: str, note: Path) -> None:
    """One of everything for a user, under ids that the other uses as well."""
    await client.uploads.add("shared", [note])
    result = await client.chat(f"do {secret(user)}", thread_id="shared")
    assert result.status == "interrupted", result
    await client.chat(f"say {secret(user)}", thread_id=f"only-{user}")
    await client.goals.set(f"goal-{user}", f"reach {secret(user)}")
    await client.memory.add(f"likes {secret(user)}")
    await client.agents.save(LeadProfile(secret(user), soul=secret(user)))


CALLS: dict[str, Callable[[DeerFlowClient, dict[str, Any]], Any]] = {
    "threads.create": lambda c, o: c.threads.create("shared"),
    "threads.list": lambda c, o: c.threads.list(),
    "threads.get": lambda c, o: c.threads.get(o["thread"]),
    "threads.rename": lambda c, o: c.threads.rename(o["thread"], "mine"),
    "threads.delete": lambda c, o: c.threads.delete(o["thread"]),
    "threads.events": lambda c, o: c.threads.events(o["thread"]),
    "threads.messages": lambda c, o: c.threads.messages(o["thread"]),
    "uploads.add": lambda c, o: c.uploads.add("shared", []),
    "uploads.list": lambda c, o: c.uploads.list(o["thread"]),
    "artifacts.list": lambda c, o: c.artifacts.list(o["thread"]),
    "artifacts.read": lambda c, o: c.artifacts.read("shared", o["file"]),
    "memory.show": lambda c, o: c.memory.show(),
    "memory.search": lambda c, o: c.memory.search(o["word"]),
    "memory.add": lambda c, o: c.memory.add("harmless"),
    "memory.change": lambda c, o: c.memory.change(o["fact"], content="stolen"),
    "memory.forget": lambda c, o: c.memory.forget(o["fact"]),
    "memory.undo": lambda c, o: c.memory.undo(),
    "memory.export": lambda c, o: c.memory.export(),
    "memory.take_in": lambda c, o: c.memory.take_in({"facts": []}),
    "memory.clear": lambda c, o: c.memory.clear(),
    "memory.flush": lambda c, o: c.memory.flush(seconds=0.1),
    "goals.get": lambda c, o: c.goals.get(o["goal"]),
    "goals.set": lambda c, o: c.goals.set("mine", "something"),
    "goals.clear": lambda c, o: c.goals.clear(o["goal"]),
    "approvals.list": lambda c, o: c.approvals.list(status=None),
    "approvals.approve": lambda c, o: c.approvals.approve(o["approval"]),
    "approvals.reject": lambda c, o: c.approvals.reject(o["approval"]),
    "models.list": lambda c, o: [spec.name for spec in c.models.list()],
    "agents.list": lambda c, o: c.agents.list(),
    "agents.get": lambda c, o: c.agents.get(o["agent"]),
    "agents.save": lambda c, o: c.agents.save(LeadProfile("mine", soul="x")),
    "skills.list": lambda c, o: c.skills.list(),
    "chat": lambda c, o: c.chat(f"say {o['own']}", thread_id=o["thread"]),
    "stream": lambda c, o: c.stream(f"say {o['own']}", thread_id=o["thread"]),
    "resume": lambda c, o: c.resume(o["thread"]),
}


def test_every_method_of_the_client_is_called() -> None:
    """A method that is added must be added here."""
    known = {
        f"{part}.{name}"
        for part, cls in PARTS.items()
        for name, member in vars(cls).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    assert set(CALLS) == known | OWN
    public = {
        name
        for name, member in vars(DeerFlowClient).items()
        if not name.startswith("_") and not isinstance(member, classmethod)
    }
    assert public == set(PARTS) | OWN


async def ask(name: str, client: DeerFlowClient, other: dict[str, Any]) -> str:
    """What a method shows; an error's text is shown as well."""
    try:
        answer = CALLS[name](client, other)
        if inspect.isasyncgen(answer):
            return visible([visible(event) async for event in answer])
        return visible(await answer if inspect.isawaitable(answer) else answer)
    except DeerFlowError as error:
        return str(error)


async def things(client: DeerFlowClient, user: str) -> dict[str, Any]:
    """The ids of a user's things, as a stranger may have overheard them."""
    [approval] = await client.approvals.list()
    [fact] = await client.memory.search(secret(user))
    return {
        "thread": f"only-{user}",
        "goal": f"goal-{user}",
        "file": f"{secret(user)}.md",
        "word": secret(user),
        "agent": secret(user),
        "fact": fact.id,
        "approval": approval.approval_id,
    }


async def test_nothing_of_one_user_is_visible_to_the_other(tmp_path: Path) -> None:
    async with both(tmp_path / "home") as harness:
        clients = {user: DeerFlowClient.over(harness, user) for user in USERS}
        notes = {user: tmp_path / f"{secret(user)}.txt" for user in USERS}
        for user, note in notes.items():
            note.write_text(secret(user))
        await asyncio.gather(*(fill(clients[user], user, notes[user]) for user in USERS))
        held = {user: await things(clients[user], user) for user in USERS}

        order = [(user, name) for user in USERS for name in CALLS]
        random.Random(3).shuffle(order)
        order.sort(key=lambda each: each[1] in ("memory.clear", "memory.undo"))
        for user, name in order:
            other = next(each for each in USERS if each != user)
            shown = await ask(name, clients[user], {**held[other], "own": secret(user)})
            if name in ECHO:  # an error repeats the name that was asked for, once
                shown = shown.replace(f"'{held[other][ECHO[name]]}'", "", 1)
            assert secret(other) not in shown, (user, name, shown[:500])

        for user in USERS:  # and nothing was changed
            client = clients[user]
            [approval] = await client.approvals.list()
            assert approval.status == "pending"
            goal = await client.goals.get(f"goal-{user}")
            assert goal is not None
            assert goal["status"] == "active"
            kept = await client.artifacts.read("shared", f"{secret(user)}.md")
            assert kept == secret(user).encode()
            events = [event.type for event in await client.threads.events("shared")]
            assert "task_completed" in events


async def test_a_deleted_and_remade_thread_shows_nothing(tmp_path: Path) -> None:
    async with both(tmp_path) as harness:
        ann, bob = (DeerFlowClient.over(harness, user) for user in USERS)
        await ann.chat(f"say {secret('ann')}", thread_id="t")
        await ann.threads.delete("t")
        await bob.threads.create("t")
        await ann.threads.create("t")
        for client in (ann, bob):
            assert await client.threads.messages("t") == []
            assert await client.artifacts.list("t") == []


ECHO = {"artifacts.read": "file", "agents.get": "agent"}
"""Methods that take a name which holds the other's secret, and its key in `things`."""

TAKES_AN_ID = (
    "threads.get",
    "threads.rename",
    "threads.delete",
    "threads.events",
    "threads.messages",
    "uploads.list",
    "artifacts.list",
    "artifacts.read",
    "memory.change",
    "memory.forget",
    "goals.get",
    "goals.clear",
    "agents.get",
    "approvals.approve",
    "approvals.reject",
    "resume",
)


async def test_someone_elses_id_answers_like_a_random_one(tmp_path: Path) -> None:
    """The same text but for the id."""
    async with both(tmp_path / "home") as harness:
        ann, bob = (DeerFlowClient.over(harness, user) for user in USERS)
        note = tmp_path / "note.txt"
        note.write_text("x")
        await fill(ann, "ann", note)
        await bob.threads.create("shared")
        held = await things(ann, "ann")
        guessed = {key: "f" * len(value) for key, value in held.items()}
        for name in TAKES_AN_ID:
            answers = {await answered(name, bob, ids) for ids in (held, guessed)}
            assert len(answers) == 1, (name, answers)


async def answered(name: str, client: DeerFlowClient, ids: dict[str, Any]) -> str:
    """What a method says, without the ids that it repeats."""
    text = await ask(name, client, {**ids, "own": "bob"})
    for value in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(str(value), "ID")
    return text
