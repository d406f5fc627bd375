"""The key `sandbox`: who isolates the agent's commands, and how far."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from deerflow.config.section import Count, Positive, Seconds, Section

PYTHON_PACKAGES = (
    "sympy",
    "numpy",
    "pandas",
    "matplotlib",
    "openpyxl",
    "python-docx",
    "python-pptx",
    "pypdf",
    "pillow",
)
_DOMAIN = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9-]+", re.IGNORECASE)


class SandboxLimitsConfig(Section):
    """`sandbox.limits`: what one sandbox may use."""

    memory_mb: Positive = Field(default=1024, description="Memory in MiB.")
    pids: Positive = Field(default=256, description="Processes and threads at once.")
    file_mb: Positive = Field(default=512, description="Largest file in MiB.")
    disk_mb: Positive = Field(default=4096, description="All files of the thread in MiB.")
    seconds: Seconds = Field(default=600, description="Time of one command.")


class SandboxPythonConfig(Section):
    """`sandbox.python`: the Python that the agent finds in its sandbox."""

    packages: tuple[str, ...] = Field(
        default=PYTHON_PACKAGES, description="Packages that `deerflow sandbox build` installs."
    )


class SandboxMountConfig(Section):
    """One entry of `sandbox.mounts`."""

    host_path: str = Field(description="Folder on the host.")
    container_path: str = Field(description="Where the agent sees it.")
    read_only: bool = Field(default=False, description="Forbid writing.")


class SandboxOwnershipConfig(Section):
    """`sandbox.ownership`: leases on containers."""

    type: str = Field(default="memory", description="Where leases are kept.")
    renew_interval_seconds: Seconds = Field(default=30, description="Seconds between renewals.")
    ttl_multiplier: Positive = Field(default=4, description="Renewals that may be missed.")


class SandboxConfig(Section):
    """`sandbox`: isolated by default; the host itself only by `use: host`."""

    use: str = Field(
        default="local", description="local (isolated), host (not isolated), or module:Class."
    )
    network: Literal["deny", "allow"] | tuple[str, ...] = Field(
        default="deny", description="deny, allow, or a list of domains."
    )
    uid_range: str = Field(default="61000-61999", description="User ids that sandboxes run under.")
    limits: SandboxLimitsConfig = Field(
        default_factory=SandboxLimitsConfig, description="What one sandbox may use."
    )
    python: SandboxPythonConfig = Field(
        default_factory=SandboxPythonConfig, description="The agent's Python."
    )
    allow_host_bash: bool = Field(
        default=False, description="Accepted; bash is isolated either way."
    )
    mounts: tuple[SandboxMountConfig, ...] = Field(
        default=(), description="Folders shown to the agent."
    )
    environment: dict[str, str] = Field(
        default_factory=dict[str, str], description="Variables that commands see; no secrets."
    )
    bash_output_max_chars: Positive = Field(
        default=20_000, description="Longest output of a command."
    )
    read_file_output_max_chars: Positive = Field(
        default=50_000, description="Longest piece of a file."
    )
    ls_output_max_chars: Positive = Field(default=20_000, description="Longest listing.")
    bash_command_timeout: Seconds = Field(default=600, description="Seconds of a command, at most.")
    image: str | None = Field(default=None, description="Container image (docker, kubernetes).")
    port: int = Field(default=8080, ge=1, le=65535, description="Port in the container.")
    replicas: Positive = Field(default=3, description="Containers at once.")
    overflow_policy: Literal["wait", "burst", "reject", "evict"] = Field(
        default="wait", description="What happens when all containers are taken."
    )
    acquire_timeout: Seconds = Field(default=30, description="Seconds to wait for a container.")
    burst_limit: Count = Field(default=0, description="Further containers under load.")
    container_prefix: str | None = Field(default=None, description="Prefix of container names.")
    idle_timeout: Count = Field(default=600, description="Seconds until an idle container stops.")
    health_check_skip_seconds: Count | None = Field(
        default=None, description="Seconds for which a health answer counts."
    )
    ownership: SandboxOwnershipConfig = Field(
        default_factory=SandboxOwnershipConfig, description="Leases on containers."
    )
    auto_start: bool = Field(default=True, description="Start containers on demand.")
    provisioner_url: str | None = Field(
        default=None, description="Address of a remote provisioner."
    )
    provisioner_api_key: str | None = Field(
        default=None, description="Key of a remote provisioner."
    )

    @field_validator("uid_range")
    @classmethod
    def _uid_range(cls, value: str) -> str:
        match = re.fullmatch(r"\s*(\d+)\s*[-–]\s*(\d+)\s*", value)
        if match is None or not 0 < int(match[1]) <= int(match[2]) < 2**31:
            raise ValueError("expected FIRST-LAST, two user ids above 0, such as 61000-61999")
        return f"{int(match[1])}-{int(match[2])}"

    @field_validator("network")
    @classmethod
    def _domains(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if isinstance(value, tuple):
            for domain in value:
                if not _DOMAIN.fullmatch(domain):
                    raise ValueError(f"{domain!r} is not a domain such as example.org")
        return value

    @property
    def uids(self) -> range:
        """The user ids of uid_range."""
        first, last = self.uid_range.split("-")
        return range(int(first), int(last) + 1)

    @property
    def command_seconds(self) -> float:
        """Seconds that one command may take: the lower of the two keys."""
        return min(self.limits.seconds, self.bash_command_timeout)
