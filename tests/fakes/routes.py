"""An account with something of everything, and an example request for every route.

`EXAMPLES` has a row for each route that takes an id or a body; `{words}` in it stand for the ids
of a `World`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from deerflow.config.load import LoadedConfig, load_config
from deerflow.storage.protocol import ApprovalRow
from fakes.gateway import Served, write_config

SECRET = "platypus"
"""Stands in everything that belongs to a world."""
SCRIPT = [{"text": "Over there.", "times": 2000, "usage": {"input": 100, "output": 20}}]
SECTIONS: dict[str, Any] = {
    "scheduler": {"enabled": True},
    "agents_api": {"enabled": True},
    "database": {"backend": "memory"},
}
SAID = {"messages": [{"role": "user", "content": f"Where is the {SECRET}?"}]}
SKILL = "---\nname: {name}\ndescription: About {about}.\n---\nLook.\n"


def config_file(home: Path) -> LoadedConfig:
    """A configuration that is a file, so that it can be read again."""
    path = write_config(home, SCRIPT, **SECTIONS)
    return load_config(path, environ={"DEER_FLOW_HOME": str(home)}, cwd=home)


@dataclass
class World:
    """Ids of an account by the names of path parameters, and the account's client."""

    client: httpx.AsyncClient
    ids: dict[str, str] = field(default_factory=dict)

    def random(self) -> World:
        """The same kinds of id, of nobody."""
        return World(self.client, {name: alike(ident) for name, ident in self.ids.items()})


def alike(ident: str) -> str:
    """A random id in the form of another one."""
    fresh = uuid4()
    if len(ident) == 36:
        return str(fresh)
    return fresh.hex if len(ident) == 32 else f"x{fresh.hex[:11]}"


async def furnish(served: Served, client: httpx.AsyncClient, name: str) -> World:
    """Give an account a thread with a run, and one of everything else."""
    world = World(client, {"thread_id": f"thread-{name}"})
    thread = f"/api/threads/thread-{name}"
    said = await client.post(f"{thread}/runs/wait", json={"input": SAID})
    assert said.status_code == 200, said.text
    assert "messages" in said.json(), said.text
    messages = said.json()["messages"]
    runs = (await client.get(f"{thread}/runs")).json()
    state = (await client.get(f"{thread}/state")).json()
    world.ids |= {
        "run_id": runs[0]["run_id"],
        "message_id": messages[0]["id"],
        "checkpoint": state["checkpoint_id"],
        "filename": f"{SECRET}-{name}.txt",
        "path": f"mnt/user-data/outputs/{SECRET}-{name}.txt",
    }
    await _work(world, name)
    await _belongings(world, name)
    await _files_and_calls(served, world)
    return world


async def _work(world: World, name: str) -> None:
    """What is planned and thought of runs."""
    client, ids = world.client, world.ids
    rated = f"/api/threads/{ids['thread_id']}/runs/{ids['run_id']}/feedback"
    feedback = await _made(client, "PUT", rated, {"rating": 1, "comment": SECRET})
    plan = {"prompt": f"Feed the {SECRET}.", "cron": "0 9 * * 1", "thread_id": ids["thread_id"]}
    task = await _made(client, "POST", "/api/scheduled-tasks", plan)
    cron = await _made(client, "POST", "/api/runs/crons", {"schedule": "0 9 * * 1", "input": SAID})
    stored = {"graph_id": "lead_agent", "assistant_id": f"assistant-{name}"}
    await _made(client, "POST", "/api/assistants", {**stored, "metadata": {"about": SECRET}})
    ids |= {
        "feedback_id": feedback["feedback_id"],
        "task_id": task["id"],
        "cron_id": cron["cron_id"],
        "assistant_id": f"assistant-{name}",
    }


async def _belongings(world: World, name: str) -> None:
    """What belongs to the person."""
    client, ids = world.client, world.ids
    memory = await _made(client, "POST", "/api/memory/facts", {"content": f"Keeps a {SECRET}."})
    skill, agent = f"skill-{name}", f"agent-{name}"
    text = {"content": SKILL.format(name=skill, about=SECRET)}
    await _made(client, "PUT", f"/api/skills/custom/{skill}", text)
    await _made(client, "POST", "/api/agents", {"name": agent, "soul": f"A {SECRET}."})
    await _made(client, "PUT", "/api/user-profile", {"content": f"I like the {SECRET}."})
    item = {"namespace": [name], "key": SECRET, "value": {"is": SECRET}}
    await _made(client, "PUT", "/api/store/items", item)
    token = await client.post("/api/v1/auth/tokens", json={"name": SECRET})
    ids |= {
        "fact_id": memory["facts"][-1]["id"],
        "skill_name": skill,
        "name": agent,
        "token_id": token.json().get("id", uuid4().hex),
        "connection_id": uuid4().hex,
        "namespace": name,
    }


async def _files_and_calls(served: Served, world: World) -> None:
    """Files of the thread, and a call that waits in it."""
    ids = world.ids
    user_id = await served.user_id(world.client)
    row = await served.harness.storage.threads.get(user_id, ids["thread_id"])
    assert row is not None
    folders = served.harness.folders(user_id, row.thread_key)
    for folder in (folders.uploads, folders.outputs):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ids["filename"]).write_text(SECRET)
    ids["approval_id"] = uuid4().hex
    waiting = ApprovalRow(
        ids["approval_id"],
        user_id,
        ids["thread_id"],
        row.thread_key,
        ids["run_id"],
        "",
        "m",
        0,
        "bash",
        {"command": f"feed {SECRET}"},
        created_at=time.time(),
    )
    await served.harness.storage.approvals.request(waiting)


async def _made(client: httpx.AsyncClient, method: str, path: str, body: Any) -> Any:
    answer = await client.request(method, path, json=body)
    assert answer.status_code < 300, (method, path, answer.text)
    return answer.json() if answer.content else None


@dataclass(frozen=True)
class Example:
    """A request that a route takes.

    Attributes:
        body: JSON with {words}, None for none.
        query: with {words}.
        status: of the owner's answer.
        keys: of the owner's answer, or of the first one in a list.
        after: requests of the owner that have to come first, as (method, path, body).
    """

    body: Any = None
    query: str = ""
    status: int = 200
    keys: tuple[str, ...] = ()
    after: tuple[tuple[str, str, Any], ...] = ()


def filled(value: Any, ids: dict[str, str]) -> Any:
    """A path, query or body with the ids of a world in the place of {words}."""
    if isinstance(value, str):
        for name, ident in ids.items():
            value = value.replace("{" + name + "}", ident).replace("{" + name + ":path}", ident)
        return value
    if isinstance(value, dict):
        return {key: filled(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, ids) for item in value]
    return value


RUN = {"input": {"messages": [{"role": "user", "content": "Again"}]}}
RUN_KEYS = ("run_id", "thread_id", "status", "assistant_id", "created_at", "metadata", "kwargs")
THREAD_KEYS = ("thread_id", "created_at", "updated_at", "metadata", "status", "values")
STATE_KEYS = ("values", "next", "metadata", "checkpoint_id", "parent_checkpoint_id", "created_at")
MEMORY_KEYS = ("version", "lastUpdated", "user", "history", "facts")
FEEDBACK_KEYS = ("feedback_id", "run_id", "thread_id", "rating", "comment", "created_at")
TASK_KEYS = ("id", "title", "prompt", "status", "cron", "timezone", "next_run_at", "thread_id")
AGENT_KEYS = ("name", "description", "soul", "model", "tools", "skills", "tool_groups")
SKILL_KEYS = ("name", "description", "category", "license", "enabled", "editable")
PAGE_KEYS = ("data", "has_more", "next_before_seq")
APPROVAL_KEYS = ("approval_id", "thread_id", "run_id", "tool", "args", "status")
RERUN_KEYS = ("input", "checkpoint", "metadata", "target_run_id")
SPENT = (
    *("thread_id", "total_tokens", "total_input_tokens", "total_output_tokens", "total_runs"),
    *("by_model", "by_caller", "context_usage"),
)
OPEN = ("PUT", "/api/threads/{thread_id}/goal", {"objective": "Find it"})
THREAD = "/api/threads/{thread_id}"
ONE_RUN = f"{THREAD}/runs/{{run_id}}"
RATE = ("PUT", f"{ONE_RUN}/feedback", {"rating": 1})
DECIDED = ("POST", "/api/approvals/{approval_id}", {"decision": "reject"})

THREADS: dict[str, Example] = {
    f"GET {THREAD}": Example(keys=THREAD_KEYS),
    f"PATCH {THREAD}": Example({"metadata": {"a": 1}}, keys=THREAD_KEYS),
    f"DELETE {THREAD}": Example(status=204),
    f"POST {THREAD}/copy": Example(keys=THREAD_KEYS, after=(DECIDED,)),
    f"GET {THREAD}/state": Example(keys=STATE_KEYS),
    f"GET {THREAD}/state/{{checkpoint}}": Example(keys=STATE_KEYS),
    f"POST {THREAD}/state/checkpoint": Example(
        {"checkpoint": {"checkpoint_id": "{checkpoint}"}}, keys=STATE_KEYS
    ),
    f"POST {THREAD}/state": Example({"values": {"title": "T"}}, keys=STATE_KEYS, after=(DECIDED,)),
    f"POST {THREAD}/history": Example({"limit": 1}, keys=("values", "next", "checkpoint_id")),
    f"POST {THREAD}/branches": Example(
        {"message_id": "{message_id}", "message_ids": ["{message_id}"]},
        keys=("thread_id", "parent_thread_id"),
        after=(DECIDED,),
    ),
    f"GET {THREAD}/goal": Example(keys=("goal",)),
    f"PUT {THREAD}/goal": Example({"objective": "Find it"}, keys=("goal",), after=(DECIDED,)),
    f"DELETE {THREAD}/goal": Example(keys=("goal",), after=(DECIDED, OPEN)),
    f"POST {THREAD}/compact": Example(
        {"force": True}, keys=("compacted", "reason"), after=(DECIDED,)
    ),
    f"POST {THREAD}/suggestions": Example(
        {"messages": [{"role": "user", "content": "Hello"}], "n": 2}, keys=("suggestions",)
    ),
    f"GET {THREAD}/token-usage": Example(keys=SPENT),
    f"GET {THREAD}/messages": Example(keys=("run_id", "seq", "content", "feedback")),
    f"GET {THREAD}/messages/page": Example(keys=PAGE_KEYS),
    f"GET {THREAD}/scheduled-tasks": Example(keys=TASK_KEYS),
    f"GET {THREAD}/approvals": Example(keys=APPROVAL_KEYS),
    f"GET {THREAD}/mcp-tasks": Example(keys=("tasks",)),
    f"GET {THREAD}/mcp-tasks/{{task_id}}": Example(status=404),
    f"POST {THREAD}/mcp-tasks/{{task_id}}/cancel": Example(status=404),
    f"POST {THREAD}/browser/navigate": Example({"url": "https://example.org"}, status=409),
    f"POST {THREAD}/commands": Example({"id": 1, "method": "state.get", "params": {}}),
    f"POST {THREAD}/stream/events": Example({"channels": ["values"]}),
    f"GET {THREAD}/stream": Example(),
}
RUNS: dict[str, Example] = {
    f"POST {THREAD}/runs": Example(RUN, keys=RUN_KEYS),
    f"POST {THREAD}/runs/stream": Example(RUN),
    f"POST {THREAD}/runs/wait": Example(RUN, keys=("messages",)),
    f"GET {THREAD}/runs": Example(keys=RUN_KEYS),
    f"POST {THREAD}/runs/crons": Example(
        {"schedule": "0 9 * * 1", **RUN}, keys=("cron_id", "thread_id")
    ),
    f"POST {THREAD}/runs/regenerate/prepare": Example(
        {"message_id": "{message_id}"}, keys=RERUN_KEYS, after=(DECIDED,)
    ),
    f"POST {THREAD}/runs/edit-regenerate/prepare": Example(
        {"human_message_id": "{message_id}", "replacement_text": "Else"},
        keys=(*RERUN_KEYS, "replacement_human_message_id", "source_message_ids"),
        after=(DECIDED,),
    ),
    f"GET {ONE_RUN}": Example(keys=RUN_KEYS),
    f"DELETE {ONE_RUN}": Example(status=204),
    f"POST {ONE_RUN}/cancel": Example(query="?wait=0&action=interrupt", status=409),
    f"GET {ONE_RUN}/join": Example(),
    f"GET {ONE_RUN}/stream": Example(),
    f"POST {ONE_RUN}/stream": Example(),
    f"GET {ONE_RUN}/messages": Example(keys=PAGE_KEYS),
    f"GET {ONE_RUN}/events": Example(keys=("event_type", "seq", "content", "metadata")),
    f"GET {ONE_RUN}/workspace-changes": Example(keys=("available",)),
    f"PUT {ONE_RUN}/feedback": Example({"rating": -1}, keys=FEEDBACK_KEYS),
    f"POST {ONE_RUN}/feedback": Example({"rating": 1}, keys=FEEDBACK_KEYS),
    f"GET {ONE_RUN}/feedback": Example(keys=FEEDBACK_KEYS, after=(RATE,)),
    f"GET {ONE_RUN}/feedback/stats": Example(keys=("run_id", "total", "positive", "negative")),
    f"DELETE {ONE_RUN}/feedback": Example(status=204, after=(RATE,)),
    f"DELETE {ONE_RUN}/feedback/{{feedback_id}}": Example(status=204),
    "GET /api/runs/{run_id}/messages": Example(keys=PAGE_KEYS),
    "GET /api/runs/{run_id}/feedback": Example(keys=FEEDBACK_KEYS, after=(RATE,)),
    "GET /api/runs/{run_id}/stream": Example(),
}
FILES: dict[str, Example] = {
    f"POST {THREAD}/uploads": Example(),
    f"GET {THREAD}/uploads/limits": Example(keys=("max_files", "max_file_size", "max_total_size")),
    f"GET {THREAD}/uploads/list": Example(keys=("files",)),
    f"DELETE {THREAD}/uploads/{{filename}}": Example(),
    f"GET {THREAD}/artifacts/{{path:path}}": Example(),
    f"PUT {THREAD}/artifacts/{{path:path}}": Example(
        {
            "content": "New.",
            "expected_sha256": "abe8a1ef8a01ed7c32a9ec5ba1f1bd7ed68cfb8c5e7d0ab7ec8b3b8f9b5b1f5e",
        },
        status=412,
    ),
}
PLANNED: dict[str, Example] = {
    "GET /api/scheduled-tasks/{task_id}": Example(keys=TASK_KEYS),
    "PATCH /api/scheduled-tasks/{task_id}": Example({"title": "Later"}, keys=TASK_KEYS),
    "POST /api/scheduled-tasks/{task_id}/pause": Example(keys=TASK_KEYS),
    "POST /api/scheduled-tasks/{task_id}/resume": Example(keys=TASK_KEYS),
    "POST /api/scheduled-tasks/{task_id}/trigger": Example(keys=("run_id", "thread_id", "status")),
    "GET /api/scheduled-tasks/{task_id}/runs": Example(),
    "DELETE /api/scheduled-tasks/{task_id}": Example(status=204),
    "PATCH /api/runs/crons/{cron_id}": Example({"metadata": {"a": 1}}, keys=("cron_id",)),
    "DELETE /api/runs/crons/{cron_id}": Example(status=204),
}
OWN: dict[str, Example] = {
    "GET /api/assistants/{assistant_id}": Example(keys=("assistant_id", "graph_id")),
    "PATCH /api/assistants/{assistant_id}": Example({"name": "N"}, keys=("assistant_id",)),
    "GET /api/assistants/{assistant_id}/graph": Example(keys=("nodes", "edges")),
    "GET /api/assistants/{assistant_id}/schemas": Example(keys=("input_schema", "state_schema")),
    "GET /api/assistants/{assistant_id}/subgraphs": Example(),
    "GET /api/assistants/{assistant_id}/subgraphs/{namespace}": Example(),
    "POST /api/assistants/{assistant_id}/versions": Example({}, keys=("version",)),
    "POST /api/assistants/{assistant_id}/latest": Example({"version": 1}, keys=("version",)),
    "DELETE /api/assistants/{assistant_id}": Example(status=204),
    "DELETE /api/v1/auth/tokens/{token_id}": Example(status=204),
    "GET /api/agents/{name}": Example(keys=AGENT_KEYS),
    "PUT /api/agents/{name}": Example({"description": "D"}, keys=AGENT_KEYS),
    "DELETE /api/agents/{name}": Example(status=204),
    "GET /api/approvals/{approval_id}": Example(keys=APPROVAL_KEYS),
    "POST /api/approvals/{approval_id}": Example({"decision": "reject"}, keys=APPROVAL_KEYS),
    "DELETE /api/channels/connections/{connection_id}": Example(status=404),
    "PATCH /api/memory/facts/{fact_id}": Example({"content": "New."}, keys=MEMORY_KEYS),
    "DELETE /api/memory/facts/{fact_id}": Example(keys=MEMORY_KEYS),
    "GET /api/skills/custom/{skill_name}": Example(keys=("name", "content")),
    "PUT /api/skills/custom/{skill_name}": Example(
        {"content": SKILL.format(name="{skill_name}", about="deer")}, keys=("name", "content")
    ),
    "DELETE /api/skills/custom/{skill_name}": Example(status=204),
    "GET /api/skills/custom/{skill_name}/history": Example(keys=("name", "history")),
    "POST /api/skills/custom/{skill_name}/rollback": Example(
        {"version": 1}, keys=("name", "content")
    ),
    "GET /api/skills/{skill_name}": Example(keys=SKILL_KEYS),
    "PUT /api/skills/{skill_name}": Example({"enabled": True}, keys=SKILL_KEYS),
}
BY_ID = {**THREADS, **RUNS, **FILES, **PLANNED, **OWN}
"""Routes with an id of the caller's own in their path."""

IN_BODY: dict[str, Example] = {
    "POST /api/threads": Example(
        {"thread_id": "{thread_id}", "if_exists": "do_nothing"}, keys=THREAD_KEYS
    ),
    "POST /api/threads/search": Example({"ids": ["{thread_id}"]}, keys=THREAD_KEYS),
    "POST /api/threads/count": Example({"ids": ["{thread_id}"]}),
    "POST /api/threads/prune": Example({"thread_ids": ["{thread_id}"]}, keys=("pruned_count",)),
    "POST /api/runs": Example({**RUN, "thread_id": "{thread_id}"}, keys=RUN_KEYS),
    "POST /api/runs/wait": Example(
        {**RUN, "config": {"configurable": {"thread_id": "{thread_id}"}}}, keys=("messages",)
    ),
    "POST /api/runs/stream": Example({**RUN, "context": {"thread_id": "{thread_id}"}}),
    "POST /api/runs/batch": Example([{**RUN, "thread_id": "{thread_id}"}], keys=RUN_KEYS),
    "POST /api/runs/cancel": Example(
        {"thread_id": "{thread_id}", "run_ids": ["{run_id}"]}, status=204
    ),
    "POST /api/runs/crons": Example({"schedule": "0 9 * * 1", **RUN}, keys=("cron_id",)),
    "POST /api/runs/crons/search": Example({"thread_id": "{thread_id}"}),
    "POST /api/runs/crons/count": Example({"thread_id": "{thread_id}"}),
    "PUT /api/store/items": Example(
        {"namespace": ["{namespace}"], "key": "k", "value": {"a": 1}}, status=204
    ),
    "GET /api/store/items": Example(query=f"?namespace={{namespace}}&key={SECRET}", keys=("key",)),
    "DELETE /api/store/items": Example({"namespace": ["{namespace}"], "key": SECRET}, status=204),
    "POST /api/store/items/search": Example({"namespace_prefix": ["{namespace}"]}, keys=("items",)),
    "POST /api/store/namespaces": Example({"prefix": ["{namespace}"]}, keys=("namespaces",)),
    "POST /api/scheduled-tasks": Example(
        {"prompt": "P", "cron": "0 9 * * 1", "thread_id": "{thread_id}"}, keys=TASK_KEYS
    ),
    "POST /api/skills/install": Example(
        {"thread_id": "{thread_id}", "path": "/mnt/user-data/outputs/x.skill"}, status=409
    ),
    "POST /api/input-polish": Example(
        {"text": "draft", "thread_id": "{thread_id}"}, keys=("rewritten_text", "changed")
    ),
    "POST /api/assistants/search": Example({"graph_id": "lead_agent"}, keys=("assistant_id",)),
    "POST /api/assistants/count": Example({"graph_id": "lead_agent"}),
    "GET /api/agents/check": Example(query="?name={name}", keys=("available", "name")),
}
"""Routes that take ids in body or query."""

PLAIN: dict[str, Example] = {
    "GET /health": Example(keys=("status",)),
    "GET /api/agents": Example(keys=("agents",)),
    "POST /api/agents": Example({"name": "fresh"}, status=201, keys=AGENT_KEYS),
    "GET /api/user-profile": Example(keys=("content",)),
    "PUT /api/user-profile": Example({"content": "I."}, keys=("content",)),
    "GET /api/approvals": Example(keys=APPROVAL_KEYS),
    "POST /api/assistants": Example({"graph_id": "lead_agent"}, keys=("assistant_id",)),
    "GET /api/channels/providers": Example(keys=("enabled", "providers")),
    "GET /api/channels/connections": Example(keys=("connections",)),
    "GET /api/channels/": Example(keys=("channels",)),
    "POST /api/channels/{provider}/connect": Example(status=404),
    "POST /api/channels/{provider}/runtime-config": Example(status=404),
    "DELETE /api/channels/{provider}/runtime-config": Example(status=404),
    "POST /api/channels/{name}/restart": Example(status=404),
    "GET /api/console/stats": Example(keys=("runs", "threads", "total_tokens")),
    "GET /api/console/runs": Example(keys=("runs", "has_more")),
    "GET /api/console/usage": Example(keys=("days", "by_model")),
    "GET /api/features": Example(keys=("agents_api", "browser_control", "mcp_tasks")),
    "POST /api/webhooks/github": Example(status=404),
    "GET /api/integrations/lark/status": Example(keys=("installed",)),
    "POST /api/integrations/lark/install": Example(status=409),
    "POST /api/integrations/lark/config/start": Example(status=409),
    "POST /api/integrations/lark/config/complete": Example(status=409),
    "POST /api/integrations/lark/config/credentials": Example(status=409),
    "POST /api/integrations/lark/auth/start": Example(status=409),
    "POST /api/integrations/lark/auth/complete": Example(status=409),
    "GET /api/mcp/config": Example(keys=("mcp_servers",)),
    "PUT /api/mcp/config": Example({"mcp_servers": {}}, keys=("mcp_servers",)),
    "PATCH /api/mcp/config": Example({"server_name": "none", "enabled": False}, status=404),
    "POST /api/mcp/cache/reset": Example(keys=("success", "message")),
    "GET /api/memory": Example(keys=MEMORY_KEYS),
    "POST /api/memory/reload": Example(keys=MEMORY_KEYS),
    "POST /api/memory/facts": Example({"content": "A fact."}, keys=MEMORY_KEYS),
    "GET /api/memory/export": Example(keys=MEMORY_KEYS),
    "POST /api/memory/import": Example({"version": "1.0", "facts": []}, keys=MEMORY_KEYS),
    "GET /api/memory/config": Example(keys=("enabled", "mode", "max_facts")),
    "GET /api/memory/status": Example(keys=("config", "data")),
    "DELETE /api/memory": Example(keys=MEMORY_KEYS),
    "GET /api/models": Example(keys=("models", "token_usage")),
    "GET /api/models/{model_name:path}": Example(keys=("name", "model", "display_name")),
    "GET /api/scheduled-tasks": Example(keys=TASK_KEYS),
    "GET /api/skills": Example(keys=("skills",)),
    "POST /api/skills/reload": Example(keys=("success",)),
    "GET /api/skills/custom": Example(keys=("skills",)),
    "GET /api/suggestions/config": Example(keys=("enabled", "max_suggestions")),
}
"""Routes without an id of the caller's own."""

EXAMPLES = {**BY_ID, **IN_BODY, **PLAIN}
GLOBAL = {"model_name": "scripted", "provider": "slack"}
"""Parameters that name nothing of a person."""
