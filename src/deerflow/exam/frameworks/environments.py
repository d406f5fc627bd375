"""Where each framework lives: a virtual environment of its own below DEER_FLOW_HOME."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deerflow.config.installer import find_uv, trusting
from deerflow.errors import SandboxError, UsageError
from deerflow.exam.frameworks.processes import last_lines, run
from deerflow.exam.frameworks.registry import Framework

FOLDER = "frameworks"
MARK = "installed"
LOG = "install.log"


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a framework.

    Attributes:
        framework: whose.
        folder: DEER_FLOW_HOME/frameworks/NAME.
    """

    framework: Framework
    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "env" / "bin" / "python"

    @property
    def home(self) -> Path:
        """The home folder of its processes: what they keep stays here."""
        return self.folder / "home"

    def installed(self) -> bool:
        """Whether it holds the packages that the requirements name today."""
        mark = self.folder / MARK
        return self.python.exists() and mark.is_file() and mark.read_text("utf-8") == self.wanted()

    def check(self) -> None:
        """Raise UsageError when it is not installed."""
        if not self.installed():
            raise UsageError(
                f"{self.framework.title} is not installed here.",
                cure=f"Run `deerflow exam frameworks install {self.framework.name}`.",
            )

    async def install(self, environ: Mapping[str, str]) -> None:
        """Make it anew, with uv where that is found, else with venv and pip.

        Args:
            environ: of the installers, for proxies and indexes.

        Raises:
            SandboxError: a package cannot be had; the log has the installer's words.
            StorageError: the folder cannot be written.
        """
        mark, log = self.folder / MARK, self.folder / LOG
        await asyncio.to_thread(mark.unlink, missing_ok=True)
        await asyncio.to_thread(shutil.rmtree, self.folder / "env", ignore_errors=True)
        await asyncio.to_thread(self.home.mkdir, parents=True, exist_ok=True)
        for command in self._commands():
            if await run(command, environ, log):
                said = await asyncio.to_thread(last_lines, log)
                raise SandboxError(
                    f"{self.framework.title} could not be installed: {said}", cure=f"See {log}."
                )
        await asyncio.to_thread(mark.write_text, self.wanted(), "utf-8")

    def _commands(self) -> list[list[str]]:
        env, listed = str(self.folder / "env"), str(self.framework.requirements)
        uv = find_uv()
        if uv is None:
            pip = [str(self.python), "-m", "pip", "install", "--quiet", "--no-input"]
            return [[sys.executable, "-m", "venv", env], [*pip, "-r", listed]]
        venv = [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, env]
        install = [uv, "pip", "install", "--quiet", "--compile-bytecode"]
        return [venv, [*trusting(), *install, "--python", str(self.python), "-r", listed]]

    def wanted(self) -> str:
        """What the mark of an installation says: a digest of the requirements."""
        return hashlib.sha256(self.framework.requirements.read_bytes()).hexdigest()


def environment(framework: Framework, home: Path) -> Environment:
    """The environment of a framework below DEER_FLOW_HOME."""
    return Environment(framework, home / FOLDER / framework.name)
