"""Finds the configuration and the home of a caller in code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from deerflow.config.load import LoadedConfig, load_config, read_environ
from deerflow.config.schema import AppConfig


def located(
    config: AppConfig | Path | str | None, home: Path | str | None
) -> tuple[LoadedConfig, dict[str, str]]:
    """The configuration, and the environment in which keys of models are looked up.

    Args:
        config: a configuration, its file, or None for the usual look-up.
        home: folder of data, or None for the usual one.

    Raises:
        ConfigError: the file has problems.
    """
    cwd = Path.cwd()
    path = None if config is None or isinstance(config, AppConfig) else Path(config)
    environ = read_environ(cwd=cwd, config=path)
    if isinstance(config, AppConfig):
        where = environ.get("DEER_FLOW_HOME")
        loaded = LoadedConfig(
            config=config,
            path=None,
            warnings=(),
            source_sha256="",
            home=cwd / where if where else cwd / ".deer-flow",
            cwd=cwd,
        )
    else:
        loaded = load_config(path, environ=environ, cwd=cwd)
    return (replace(loaded, home=cwd / home) if home is not None else loaded), environ
