"""The plan of the strongest level: bubblewrap, every namespace, a filter, limits, an own uid."""

from __future__ import annotations

import base64
from typing import Final

from deerflow.sandbox import seccomp
from deerflow.sandbox.bash_loop import KEEPER, loop
from deerflow.sandbox.confine import INFO_FD, SECCOMP_FD, Confinement, Mounts
from deerflow.sandbox.etc import INNER_ID
from deerflow.sandbox.limits import MIB, rlimits
from deerflow.sandbox.paths import USER_DATA
from deerflow.sandbox.site import CONTROL, Site, View, environment, system_folders

_STAGE: Final = "/tmp"  # noqa: S108 - covered by an own tmpfs in an own mount namespace
_SHM_MB: Final = 64


def plan(site: Site, program: str, view: View) -> Confinement:
    """How to start one shell.

    With an own uid (server is root) every source is first bound to a private folder in an own
    mount namespace:
    bubblewrap then runs as the dropped uid and could not pass a parent folder of mode 0700. Its
    environment is
    empty, since /proc/1/environ inside shows it.

    Args:
        site: the sandbox.
        program: bwrap's path.
        view: what the inside sees.
    """
    staged: list[Mounts] = []
    if site.owner is not None:
        staged.append({"kind": "tmpfs", "source": "64k", "target": _STAGE})

    def source(path: str) -> str:
        if site.owner is None:
            return path
        target = f"{_STAGE}/{len(staged)}"
        staged.append({"kind": "bind", "source": path, "target": target})
        return target

    arguments = [program, *_namespaces(site), *_system(site, source(str(site.etc)))]
    for folder in ("/mnt", "/mnt/skills", "/opt", "/run"):
        arguments += ["--perms", "0755", "--dir", folder]
    for host, inside, read_only in site.folder_pairs():
        arguments += ["--ro-bind" if read_only else "--bind", source(str(host)), inside]
    arguments += ["--ro-bind", source(str(site.control)), CONTROL]
    arguments += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in environment(site).items():
        arguments += ["--setenv", name, value]
    arguments += ["--chdir", USER_DATA, "--seccomp", str(SECCOMP_FD), "--info-fd", str(INFO_FD)]
    arguments += ["--", "/bin/sh", "-c", KEEPER, "sh", loop(site.limits.pids, view.pipes)]
    return Confinement(
        argv=arguments,
        env={},
        owner=site.owner,
        groups=list(site.groups),
        rlimits=rlimits(site.limits, memory=not site.bounded, own_uid=site.owner is not None),
        mounts=staged,
        scoped=site.network,
        seccomp=base64.b64encode(seccomp.program("inet")).decode("ascii"),
    )


def _namespaces(site: Site) -> list[str]:
    flags = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    flags += ["--unshare-cgroup-try", "--hostname", "sandbox"]
    flags += ["--uid", str(INNER_ID), "--gid", str(INNER_ID)]
    flags += [] if site.network else ["--unshare-net"]
    return [*flags, "--die-with-parent", "--new-session"]


def _system(site: Site, etc: str) -> list[str]:
    """Everything but the agent's folders; whatever is writable has a size."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for path, target in system_folders():
        arguments += ["--ro-bind", path, path] if target is None else ["--symlink", target, path]
    arguments += ["--ro-bind", etc, "/etc", "--proc", "/proc", "--dev", "/dev"]
    arguments += ["--size", str(_SHM_MB * MIB), "--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108
    arguments += ["--size", str(site.limits.tmp_mb * MIB), "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108
    return arguments
