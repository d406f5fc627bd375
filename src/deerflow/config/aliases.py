"""Class paths of 2.x files and what stands for them here."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any

_OURS = ("deerflow.", "src.", "app.")
"""Where 2.x kept its classes; a path elsewhere belongs to the user."""

_OPENAI = "deerflow.models.openai:OpenAIChatModel"


@dataclass(frozen=True, slots=True)
class Alias:
    """What stands for a class path.

    Attributes:
        use: our name for it, or None when there is none.
        defaults: keys that the entry gets unless it has them.
        cure: what to write instead, when `use` is None.
        note: a warning that the alias deserves, or "".
    """

    use: str | None
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])
    cure: str = ""
    note: str = ""


MODELS = {
    "VllmChatModel": Alias(_OPENAI, {"provider": "vllm"}),
    "PatchedChatOpenAI": Alias(_OPENAI),
    "PatchedChatDeepSeek": Alias(_OPENAI, {"provider": "deepseek"}),
    "PatchedChatMiniMax": Alias(_OPENAI, {"provider": "minimax"}),
    "PatchedChatMiMo": Alias(_OPENAI, {"provider": "mimo"}),
    "PatchedChatStepFun": Alias(_OPENAI, {"provider": "stepfun"}),
    "MindIEChatModel": Alias(_OPENAI, {"provider": "mindie"}),
    "ClaudeChatModel": Alias("langchain_anthropic:ChatAnthropic"),
    "CodexChatModel": Alias(
        None, cure="sign-in by Codex is not supported; use `model: openai:NAME` with an api_key"
    ),
}
"""Chat classes by class name; the modules moved between 2.x versions, the names did not."""

_CONTAINERS = (
    "containers are not supported; use `sandbox.use: local`, which isolates without Docker"
)
SANDBOXES = {
    "LocalSandboxProvider": Alias("local"),
    "AioSandboxProvider": Alias(None, cure=_CONTAINERS),
    "DockerSandboxProvider": Alias(None, cure=_CONTAINERS),
    "KubernetesSandboxProvider": Alias(None, cure=_CONTAINERS),
    "RemoteSandboxProvider": Alias(None, cure=_CONTAINERS),
    "E2BSandboxProvider": Alias(None, cure=_CONTAINERS),
    "BoxLiteSandboxProvider": Alias(None, cure=_CONTAINERS),
}
SANDBOX_NAMES = frozenset({"local", "host", "memory"})

TOOLS = {
    f"{name}_tool": Alias(f"builtin:{name}")
    for name in (
        "bash",
        "ls",
        "read_file",
        "write_file",
        "str_replace",
        "glob",
        "grep",
        "present_files",
        "view_image",
        "ask_clarification",
    )
} | {
    f"{name}_tool": Alias(
        None, cure=f"{name} is not supported yet and is left out; an MCP server can offer it"
    )
    for name in ("web_search", "web_fetch", "image_search", "web_capture")
}
"""Tools by attribute name. `builtin:NAME` is always on; naming it changes nothing."""

SKILLS = {"LocalSkillStorage": Alias("local")}

GUARDRAILS = {
    "AllowlistProvider": Alias("allowlist"),
    "AllowListProvider": Alias("allowlist"),
    "OAPProvider": Alias("oap"),
    "OapProvider": Alias("oap"),
    "OAPGuardrailProvider": Alias("oap"),
}

MEMORY = {
    "DeerMem": Alias("deermem"),
    "DeerMemManager": Alias("deermem"),
    "MemoryManager": Alias("deermem"),
    "FileMemoryStorage": Alias("deermem"),
    "NoopMemoryManager": Alias("noop"),
}


def resolve(path: str, table: dict[str, Alias]) -> Alias:
    """What a class path stands for.

    A path outside the product, a short name, and a path to a module that exists here stand for
    themselves. Any other path of 2.x has `use` None and a cure.
    """
    module, _, name = path.rpartition(":")
    if not module:
        head, _, tail = path.rpartition(".")  # some files write pkg.mod.Class
        module, name = (head, tail) if head.startswith(_OURS) else ("", path)
    if not module.startswith(_OURS):
        return Alias(path)
    if name in table:
        return table[name]
    if module.startswith("deerflow.") and _exists(module):
        return Alias(path)
    known = ", ".join(sorted({alias.use for alias in table.values() if alias.use}))
    return Alias(None, cure=f"{path} does not exist here; known names: {known}")


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
