"""Class paths of 2.x files, one by one and in a whole file."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.config.aliases import MODELS, SANDBOXES, TOOLS, resolve
from deerflow.config.load import LoadedConfig, load_config
from deerflow.errors import ConfigError

REALISTIC = """\
config_version: 12
log_level: info
token_usage:
  enabled: true
models:
  - name: gpt
    display_name: GPT
    use: langchain_openai:ChatOpenAI
    model: gpt-5
    api_key: $OPENAI_API_KEY
    request_timeout: 600.0
    max_retries: 2
    max_tokens: 4096
    supports_vision: true
    supports_reasoning_effort: true
  - name: thinker
    use: deerflow.models.patched_deepseek:PatchedChatDeepSeek
    model: deepseek-reasoner
    api_key: $DEEPSEEK_API_KEY
    supports_thinking: true
    when_thinking_enabled:
      extra_body:
        thinking: {type: enabled}
    when_thinking_disabled:
      extra_body:
        thinking: {type: disabled}
  - name: house
    use: deerflow.models.vllm_provider:VllmChatModel
    model: qwen
    base_url: http://localhost:8000/v1
    api_key: $VLLM_API_KEY
    supports_thinking: true
tool_groups:
  - name: web
  - name: file:read
  - name: file:write
  - name: bash
tools:
  - name: web_search
    group: web
    use: deerflow.community.ddg_search.tools:web_search_tool
    max_results: 5
  - name: ls
    group: file:read
    use: deerflow.sandbox.tools:ls_tool
  - name: bash
    group: bash
    use: deerflow.sandbox.tools:bash_tool
  - name: own
    group: web
    use: my_company.tools:lookup
    endpoint: http://intranet
uploads:
  max_files: 10
  pdf_converter: auto
sandbox:
  use: deerflow.sandbox.local:LocalSandboxProvider
  allow_host_bash: true
  bash_output_max_chars: 20000
subagents:
  timeout_seconds: 1800
  agents:
    general-purpose:
      max_turns: 80
      model: inherit
skills:
  container_path: /mnt/skills
title:
  enabled: true
  max_words: 6
  max_chars: 60
  model_name: null
summarization:
  enabled: true
  model_name: null
  trigger:
    - {type: tokens, value: 15564}
  keep: {type: messages, value: 10}
memory:
  enabled: true
  storage_path: memory.json
  debounce_seconds: 30
  max_facts: 100
  injection_enabled: true
guardrails:
  enabled: true
  provider:
    use: deerflow.guardrails.builtin:AllowlistProvider
    config: {denied_tools: [bash]}
channels:
  slack:
    enabled: false
    bot_token: $SLACK_BOT_TOKEN
"""
KEYS = {"OPENAI_API_KEY": "a", "DEEPSEEK_API_KEY": "b", "VLLM_API_KEY": "", "SLACK_BOT_TOKEN": "c"}


def load(folder: Path, text: str) -> LoadedConfig:
    (folder / "config.yaml").write_text(text)
    return load_config(None, environ=KEYS, cwd=folder)


def test_a_realistic_2x_file_loads(tmp_path: Path) -> None:
    loaded = load(tmp_path, REALISTIC)
    config = loaded.config
    assert loaded.unknown_keys == 0
    assert [model.use for model in config.models] == [
        "langchain_openai:ChatOpenAI",
        "deerflow.models.openai:OpenAIChatModel",
        "deerflow.models.openai:OpenAIChatModel",
    ]
    assert [model.provider for model in config.models] == [None, "deepseek", "vllm"]
    assert config.models[0].extra == {"request_timeout": 600.0, "max_retries": 2}
    assert config.models[2].api_key == ""
    assert config.sandbox.use == "local"
    assert [tool.use for tool in config.tools] == [
        "builtin:ls",
        "builtin:bash",
        "my_company.tools:lookup",
    ]
    assert config.guardrails.provider is not None
    assert config.guardrails.provider.use == "allowlist"
    assert config.summarization.trigger is not None
    assert config.summarization.trigger[0].value == 15564
    said = "\n".join(loaded.warnings)
    assert "tools[0]: web_search is not supported yet" in said
    assert "sandbox.allow_host_bash: bash runs isolated all the same" in said
    assert "config_version: the file says 12" in said


@pytest.mark.parametrize("module", ["deerflow.models.any_module", "src.models.any_module"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_chat_classes(module: str, name: str) -> None:
    alias = resolve(f"{module}:{name}", MODELS)
    assert alias is MODELS[name]
    assert alias.use or alias.cure


def test_other_peoples_classes_and_short_names_stand_for_themselves() -> None:
    for path in ("pkg.mod:VllmChatModel", "local", "deerflow.config.schema:AppConfig"):
        assert resolve(path, MODELS).use == path


def test_a_path_that_does_not_exist_here_is_refused() -> None:
    alias = resolve("deerflow.models.nowhere:Strange", MODELS)
    assert alias.use is None
    assert "does not exist here" in alias.cure


def test_dots_instead_of_a_colon() -> None:
    assert resolve("deerflow.sandbox.local.LocalSandboxProvider", SANDBOXES).use == "local"


def test_tools_of_our_own_are_built_in() -> None:
    assert resolve("deerflow.sandbox.tools:grep_tool", TOOLS).use == "builtin:grep"


@pytest.mark.parametrize(
    "use",
    [
        "deerflow.community.aio_sandbox:AioSandboxProvider",
        "src.community.aio_sandbox:AioSandboxProvider",
        "deerflow.community.unheard_of:OtherSandboxProvider",
        "docker",
    ],
)
def test_a_sandbox_that_we_lack_is_an_error_with_its_replacement(tmp_path: Path, use: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml:2: sandbox\.use: .*local"):
        load(tmp_path, f"sandbox:\n  use: {use}\n")


@pytest.mark.parametrize("use", ["local", "host", "memory", "pkg.mod:Provider"])
def test_sandboxes_that_we_have(tmp_path: Path, use: str) -> None:
    loaded = load(tmp_path, f"sandbox: {{use: '{use}'}}\n")
    assert loaded.config.sandbox.use == use
    assert loaded.warnings == ()


def test_host_is_never_reached_by_allow_host_bash(tmp_path: Path) -> None:
    assert load(tmp_path, "sandbox: {allow_host_bash: true}\n").config.sandbox.use == "local"


def test_memory_and_skills(tmp_path: Path) -> None:
    text = (
        "memory: {manager_class: 'deerflow.agents.memory:NoopMemoryManager'}\n"
        "skills: {use: 'deerflow.skills.storage:LocalSkillStorage'}\n"
    )
    config = load(tmp_path, text).config
    assert config.memory.manager_class == "noop"
    assert config.skills.use == "local"
