"""Look-up, errors with key and line, warnings, reload."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deerflow.config.load import LoadedConfig, load_config, read_environ, reload_config
from deerflow.config.schema import AppConfig
from deerflow.errors import ConfigError


def load(folder: Path, text: str, **environ: str) -> LoadedConfig:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    return load_config(None, environ=environ, cwd=folder)


def problems(folder: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, **environ)
    return caught.value.problems


def test_without_a_file_the_embedded_defaults_hold(tmp_path: Path) -> None:
    loaded = load_config(None, environ={}, cwd=tmp_path)
    assert loaded.config == AppConfig()
    assert loaded.path is None
    assert loaded.source_sha256 == ""
    assert loaded.home == tmp_path / ".deer-flow"
    assert loaded.warnings == ()


def test_look_up_order(tmp_path: Path) -> None:
    for name, turns in (("config.yaml", 1), ("env.yaml", 2), ("given.yaml", 3)):
        (tmp_path / name).write_text(f"max_turns: {turns}\n")
    environ = {"DEER_FLOW_CONFIG_PATH": "env.yaml"}

    def turns(path: Path | None, environ: dict[str, str]) -> int:
        return load_config(path, environ=environ, cwd=tmp_path).config.max_turns

    assert turns(Path("given.yaml"), environ) == 3
    assert turns(None, environ) == 2
    assert turns(None, {"DEER_FLOW_CONFIG_PATH": ""}) == 1
    assert turns(None, {}) == 1


def test_home_comes_from_the_environment(tmp_path: Path) -> None:
    for value, home in (("data", tmp_path / "data"), (str(tmp_path / "x"), tmp_path / "x")):
        loaded = load_config(None, environ={"DEER_FLOW_HOME": value}, cwd=tmp_path)
        assert loaded.home == home


@pytest.mark.parametrize("through_environment", [True, False])
def test_a_file_that_was_asked_for_must_exist(tmp_path: Path, through_environment: bool) -> None:
    path = None if through_environment else Path("gone.yaml")
    environ = {"DEER_FLOW_CONFIG_PATH": "gone.yaml"} if through_environment else {}
    with pytest.raises(ConfigError, match=r"gone\.yaml:1: there is no such file"):
        load_config(path, environ=environ, cwd=tmp_path)


def test_a_folder_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=r"folder:1: cannot be read: Is a directory"):
        load_config(Path("folder"), environ={}, cwd=tmp_path)
    (tmp_path / "config.yaml").write_bytes(b"max_turns: 1\ntitle: \xff\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:2: is not UTF-8 text"):
        load_config(None, environ={}, cwd=tmp_path)


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"\xef\xbb\xbfmax_turns: 7\r\nverify: false\r\n")
    assert load_config(None, environ={}, cwd=tmp_path).config.max_turns == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_turns: many", "config.yaml:1: max_turns: must be a whole number"),
        ("max_turns: true", "config.yaml:1: max_turns: must be a number, not True"),
        ("max_turns: 0", "config.yaml:1: max_turns: must be greater than or equal to 1, not 0"),
        ("title: 7", "config.yaml:1: title: must be a mapping, not 7"),
        ("models:\n- model: a:b", "config.yaml:2: models[0].name: this key is needed"),
        ("models: {a: 1}", "config.yaml:1: models: must be a list"),
        ("models:\n- name: a", "config.yaml:2: models[0]: either `use` or `model` is needed"),
        ("models:\n- {name: a, model: b}", "config.yaml:2: models[0].model: without `use`"),
        (
            "models:\n- {name: a, model: o:b}\n- {name: a, model: o:c}",
            "config.yaml:3: models[1].name: 'a' is already the name of models[0]",
        ),
        (
            "models:\n- name: fast\n  model: o:b\n  fallbacks: [fats]",
            "config.yaml:4: models[0].fallbacks[0]: no model is called 'fats'; did you mean fast?",
        ),
        ("title: {model_name: x}", "config.yaml:1: title.model_name: no model is called 'x'"),
        ("sandbox: {network: 5}", "config.yaml:1: sandbox.network: must be 'deny' or 'allow' or"),
        ("sandbox: {network: ['a b']}", "config.yaml:1: sandbox.network: 'a b' is not a domain"),
        ("sandbox: {uid_range: 5-3}", "config.yaml:1: sandbox.uid_range: expected FIRST-LAST"),
        ("database: {backend: postgres}", "config.yaml:1: database.backend: postgres needs"),
        ("guardrails: {enabled: true}", "config.yaml:1: guardrails.provider: is needed"),
        (
            "guardrails: {provider: {use: allowlst}}",
            "config.yaml:1: guardrails.provider.use: no policy is called 'allowlst'; did you mean",
        ),
        ("summarization:\n  keep: {type: fraction, value: 3}", "config.yaml:2: summarization.keep"),
    ],
)
def test_wrong_values_are_errors_with_key_and_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    [line] = problems(tmp_path, text)
    assert line.startswith(expected)


def test_an_error_never_shows_a_secret(tmp_path: Path) -> None:
    text = "models:\n- name: a\n  model: o:b\n  api_key: [s3cret]\nmax_turns: $TURNS\n"
    found = "\n".join(problems(tmp_path, text, TURNS="t0psecret"))
    assert "models[0].api_key" in found
    assert "not '$TURNS'" in found
    assert "s3cret" not in found
    assert "t0psecret" not in found


def test_unknown_keys_warn_with_the_nearest_match(tmp_path: Path) -> None:
    loaded = load(tmp_path, "max_turn: 3\ntitle:\n  max_wrods: 1\n  zzz: 2\nmodels: []\n")
    assert loaded.warnings == (
        "config.yaml:1: max_turn: unknown key, ignored; did you mean max_turns?",
        "config.yaml:3: title.max_wrods: unknown key, ignored; did you mean max_words?",
        "config.yaml:4: title.zzz: unknown key, ignored",
    )
    assert loaded.unknown_keys == 3
    assert loaded.config == AppConfig()


def test_unknown_keys_inside_lists_and_maps(tmp_path: Path) -> None:
    text = (
        "sandbox:\n  mounts:\n  - {host_path: a, container_path: b, nmae: c}\n"
        "tool_output:\n  tool_overrides:\n    x: {preview: 1}\n"
    )
    loaded = load(tmp_path, text)
    assert [line.split(": ")[1] for line in loaded.warnings] == [
        "sandbox.mounts[0].nmae",
        "tool_output.tool_overrides.x.preview",
    ]


def test_further_keys_of_models_and_tools_go_to_the_constructor(tmp_path: Path) -> None:
    text = (
        "models:\n- name: a\n  use: pkg.mod:Class\n  temperature: 0.5\n  extra_body: {x: $X}\n"
        "tools:\n- name: t\n  use: pkg.mod:tool\n  max_results: 5\n"
    )
    loaded = load(tmp_path, text, X="1")
    assert loaded.config.models[0].extra == {"temperature": 0.5, "extra_body": {"x": "1"}}
    assert loaded.config.tools[0].extra == {"max_results": 5}
    assert loaded.warnings == ()


def test_sections_left_empty_mean_their_defaults(tmp_path: Path) -> None:
    text = "models:\ntools:\nuploads:\nsandbox:\n  limits:\n  mounts:\nchannels:\n"
    assert load(tmp_path, text).config == AppConfig()


def test_words_of_yaml_1_1_are_still_true_and_false(tmp_path: Path) -> None:
    loaded = load(tmp_path, "title: {enabled: no}\nread_before_write: {enabled: off}\nverify: yes")
    assert loaded.config.title.enabled is False
    assert loaded.config.read_before_write.enabled is False
    assert loaded.config.verify is True


def test_keys_without_effect_warn_only_when_they_would_change_something(tmp_path: Path) -> None:
    assert (
        load(tmp_path, "max_recursion_limit: 1000\nagents_api: {enabled: false}\n").warnings == ()
    )
    loaded = load(tmp_path, "max_recursion_limit: 50\ncheckpointer: {type: memory}\n")
    assert loaded.warnings == (
        "config.yaml:1: max_recursion_limit: no effect: runs are limited by model turns: "
        "use max_turns",
        "config.yaml:2: checkpointer: no effect: use database",
    )
    assert loaded.unknown_keys == 0


def test_the_environment_is_read_over_dotenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (tmp_path / ".env").write_text("A=cwd\nB=cwd\nC=cwd\n")
    (beside / ".env").write_text("B=beside\nC=beside\nD='pa$word ${A}'\n")
    monkeypatch.setenv("C", "")
    environ = read_environ(cwd=tmp_path, config=beside / "config.yaml")
    assert (environ["A"], environ["B"], environ["C"]) == ("cwd", "beside", "")
    assert environ["D"] == "pa$word ${A}"
    assert environ["PATH"] == os.environ["PATH"]  # noqa: TID251 - what the function must mirror


def test_dotenv_may_name_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    (tmp_path / ".env").write_text("DEER_FLOW_CONFIG_PATH=sub/c.yaml\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.env").write_text("TURNS=9\n")
    (tmp_path / "sub/c.yaml").write_text("max_turns: $TURNS\n")
    environ = read_environ(cwd=tmp_path)
    assert load_config(None, environ=environ, cwd=tmp_path).config.max_turns == 9


def test_extensions_file(tmp_path: Path) -> None:
    (tmp_path / "extensions_config.json").write_text(
        '{"mcpServers": {"git": {"type": "http", "url": "http://x/$NOPE", "descripton": "d",'
        ' "routing": {"mode": "prefer"}}}, "skills": {"a": {"enabled": false}}}'
    )
    loaded = load_config(None, environ={}, cwd=tmp_path)
    server = loaded.extensions.mcp_servers["git"]
    assert server.url == "http://x/"
    assert server.session_init_timeout == 60
    assert loaded.extensions.skills["a"].enabled is False
    assert loaded.warnings == (
        "extensions_config.json:1: mcpServers.git.descripton: unknown key, ignored; "
        "did you mean description?",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"skills": {}\n,,}', "extensions_config.json:2: broken JSON: "),
        ('{"skills":\n{"a": 1}}', "extensions_config.json:2: skills.a: must be a mapping"),
        ("[]", "extensions_config.json:1: the file must hold keys and values"),
        ('{"skills": {},\n\t"skills": {}}', "extensions_config.json:2: skills: duplicate key"),
    ],
)
def test_broken_extensions_files(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "extensions_config.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(None, environ={}, cwd=tmp_path)
    [line] = caught.value.problems
    assert line.startswith(expected)


def test_json_escapes_mean_what_json_says(tmp_path: Path) -> None:
    (tmp_path / "extensions_config.json").write_text(
        '{\n\t"mcpServers": {"a": {"command": "x\\/y", "description": "\\ud83e\\udd8c"}}}'
    )
    server = load_config(None, environ={}, cwd=tmp_path).extensions.mcp_servers["a"]
    assert server.command == "x/y"
    assert server.description == "\N{DEER}"


def test_a_reload_without_a_change_is_the_same_object(tmp_path: Path) -> None:
    loaded = load(tmp_path, "max_turns: 3\n")
    assert reload_config(loaded, environ={}) is loaded


def test_a_reload_leaves_startup_sections_alone_and_says_so(tmp_path: Path) -> None:
    loaded = load(tmp_path, "max_turns: 3\ndatabase: {sqlite_dir: a}\n")
    (tmp_path / "config.yaml").write_text("max_turns: 4\ndatabase: {sqlite_dir: b}\n")
    fresh = reload_config(loaded, environ={})
    assert fresh.config.max_turns == 4
    assert fresh.config.database.sqlite_dir == "a"
    assert fresh.warnings == ("database: changed, takes effect at the next start",)


def test_p16_all_problems_in_one_message_with_key_and_line(tmp_path: Path) -> None:
    text = """\
models:
  - name: a
    model: openai:x
    api_key: $UNSET
    base_url: http://$EMPTY/
    max_tokens: lots
titel: {enabled: true}
title:
  max_words: 6
  max_words: 7
uploads: {max_files: -1}
"""
    found = problems(tmp_path, text, EMPTY="")
    assert [line.split(" ")[:2] for line in found] == [
        ["config.yaml:4:", "models[0].api_key:"],
        ["config.yaml:6:", "models[0].max_tokens:"],
        ["config.yaml:7:", "titel:"],
        ["config.yaml:10:", "title.max_words:"],
        ["config.yaml:11:", "uploads.max_files:"],
    ]
    assert "did you mean title?" in found[2]


def test_p16_empty_is_a_value_and_a_dollar_in_a_password_survives(tmp_path: Path) -> None:
    text = "models:\n- {name: a, model: 'o:x', api_key: $EMPTY, base_url: pa$$word1$}\n"
    model = load(tmp_path, text, EMPTY="").config.models[0]
    assert model.api_key == ""
    assert model.base_url == "pa$word1$"
    literal = load(tmp_path, "models:\n- {name: a, model: 'o:x', api_key: $P}\n", P="x$y$$z")
    assert literal.config.models[0].api_key == "x$y$$z"


@pytest.mark.parametrize("content", [None, b"=\n\x00\xff broken ' \"\nA=1\nB", b"A=1\n"])
def test_p16_a_missing_or_broken_dotenv_never_aborts(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / ".env").write_bytes(content)
    environ = read_environ(cwd=tmp_path)
    assert load_config(None, environ=environ, cwd=tmp_path).config == AppConfig()
    (tmp_path / ".env").unlink(missing_ok=True)
    (tmp_path / ".env").mkdir()
    assert "PATH" in read_environ(cwd=tmp_path)


def test_p16_reload_reads_content_although_the_time_stamp_is_the_same(tmp_path: Path) -> None:
    loaded = load(tmp_path, "max_turns: 3\n")
    file = tmp_path / "config.yaml"
    before = file.stat()
    file.write_text("max_turns: 4\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    fresh = reload_config(loaded, environ={})
    assert fresh.config.max_turns == 4
    assert fresh.source_sha256 != loaded.source_sha256


@pytest.mark.parametrize("text", ["max_turns: [", "max_turns: x", "max_turns: $UNSET", None])
def test_p16_a_broken_reload_keeps_the_last_good_state_and_says_so(
    tmp_path: Path, text: str | None
) -> None:
    loaded = load(tmp_path, "max_turns: 3\n")
    file = tmp_path / "config.yaml"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    kept = reload_config(loaded, environ={})
    assert kept.config == loaded.config
    assert kept.reload_problems
    assert "the last good configuration stays in force" in kept.warnings[-1]
    assert "config.yaml" in kept.warnings[-1]
    twice = reload_config(kept, environ={})
    assert len(twice.warnings) == len(loaded.warnings) + 1
    file.write_text("max_turns: 5\n")
    fresh = reload_config(twice, environ={})
    assert fresh.config.max_turns == 5
    assert fresh.reload_problems == ()
    assert fresh.warnings == ()


def test_p16_values_from_dotenv_stay_out_of_the_sandbox_environment(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("HOST_PATH=/host/only\n")
    loaded = load_config(None, environ=read_environ(cwd=tmp_path), cwd=tmp_path)
    assert loaded.config.sandbox.environment == {}
    assert "/host/only" not in loaded.config.model_dump_json()
