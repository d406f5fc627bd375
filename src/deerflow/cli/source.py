"""The configuration that a command works with."""

from __future__ import annotations

from pathlib import Path

from deerflow.config.load import LoadedConfig, load_config, read_environ


def read(config: Path | None) -> tuple[LoadedConfig, dict[str, str]]:
    """Configuration and environment of this process.

    Args:
        config: as given with --config, or None for the usual look-up.

    Raises:
        ConfigError: with every problem.
    """
    cwd = Path.cwd()
    environ = read_environ(cwd=cwd, config=config)
    return load_config(config, environ=environ, cwd=cwd), environ
