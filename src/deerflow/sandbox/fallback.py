"""The plans without user namespaces: Landlock with a filter and limits, and the host as it is."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from deerflow.sandbox import seccomp, tree
from deerflow.sandbox.bash_loop import KEEPER, loop
from deerflow.sandbox.confine import Confinement, Mounts, Paths
from deerflow.sandbox.limits import MIB, rlimits
from deerflow.sandbox.paths import SKILLS, WORKSPACE
from deerflow.sandbox.site import CONTROL, Site, View, environment

_READ: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc")
_HOST_ETC: Final = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/localtime",
    "/etc/fonts",
    "/etc/mime.types",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
)
_OWN: Final = ("/mnt", "/opt", "/run")
"""Empty but for the sandbox's own folders in its mount namespace."""
_NAMES_ETC: Final = ("/etc/resolv.conf", "/etc/hosts")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SHM_MB: Final = 64


def landlock_view(site: Site, *, mounts: bool) -> View:
    """What a shell sees: the virtual tree where mounts can be had, else host paths by alias."""
    return View() if mounts else host_view(site)


def host_view(site: Site) -> View:
    """Host paths, with the pairs that turn one kind into the other."""
    pairs = [(inside, str(host)) for host, inside, _ in site.folder_pairs()]
    pairs.append((SKILLS, str(skills_folder(site))))
    hidden = [(inside, str(Path(host).resolve())) for inside, host in pairs]
    hidden += [(CONTROL, str(site.control)), ("/tmp", str(site.temp))]  # noqa: S108
    return View(pipes=str(site.control), alias=tuple(pairs), hidden=tuple(hidden))


def skills_folder(site: Site) -> Path:
    """Where links to the skill folders stand, so that /mnt/skills can be listed without mounts."""
    return site.control.with_name("skills")


def link_skills(site: Site) -> None:
    """Make those links. Blocking."""
    folder = skills_folder(site)
    folder.mkdir()
    for host, inside, _ in site.folder_pairs():
        if inside.startswith(f"{SKILLS}/"):
            (folder / inside.rpartition("/")[2]).symlink_to(host)


def landlock_plan(site: Site, *, mounts: bool) -> Confinement:
    """How to start one shell under Landlock.

    The rules name what may be read and what may be changed; the filter closes `socket()` unless
    the network is
    allowed, since Landlock has no rule for UDP; signals and abstract sockets stay inside by
    Landlock's scopes.

    Args:
        site: the sandbox.
        mounts: an own mount namespace can be had (root): the virtual paths are then real.
    """
    view = landlock_view(site, mounts=mounts)
    temp = "/tmp" if mounts else str(site.temp)  # noqa: S108
    write = [temp, *_DEVICES]
    read = [*_READ, *(_OWN if mounts else (str(skills_folder(site)),))]
    read += [*(("/etc",) if mounts else _HOST_ETC + (_NAMES_ETC if site.network else ()))]
    for host, inside, read_only in site.folder_pairs():
        (read if read_only else write).append(inside if mounts else str(host))
    sockets: seccomp.Sockets = "inet_only" if site.network else "none"
    return Confinement(
        argv=["/bin/sh", "-c", KEEPER, "sh", _loop(site, view)],
        env=_environment(site, view, temp),
        cwd=WORKSPACE if mounts else str(site.folders.workspace),
        owner=site.owner,
        groups=list(site.groups),
        rlimits=rlimits(site.limits, memory=not site.bounded, own_uid=site.owner is not None),
        mounts=_mounts(site) if mounts else [],
        paths=Paths(read=read, write=write, pipes=[view.pipes], network=site.network),
        seccomp=base64.b64encode(seccomp.program(sockets)).decode("ascii"),
        bubblewrap=False,
        tree=True,
    )


def host_plan(site: Site) -> Confinement:
    """How to start one shell on the host: not confined, but still ended as a whole."""
    view = host_view(site)
    return Confinement(
        argv=["/bin/sh", "-c", KEEPER, "sh", loop(None, view.pipes)],
        env=_environment(site, view, str(site.temp)),
        cwd=str(site.folders.workspace),
        bubblewrap=False,
        tree=True,
    )


def _loop(site: Site, view: View) -> str:
    """Without a user namespace RLIMIT_NPROC counts all of a uid: others' come on top of ours."""
    others = 0 if site.owner is not None else tree.threads_of(os.getuid())
    return loop(site.limits.pids + others, view.pipes)


def _environment(site: Site, view: View, temp: str) -> dict[str, str]:
    plain = environment(site, temp=temp)
    return {name: view.inward(value) for name, value in plain.items()}


def _mounts(site: Site) -> list[Mounts]:
    """The same tree as under bubblewrap, by a privileged server's own mount namespace."""
    steps: list[Mounts] = [
        {"kind": "tmpfs", "source": "64k", "target": "/mnt"},
        {"kind": "tmpfs", "source": "64k", "target": "/opt"},
        {"kind": "tmpfs", "source": "64k", "target": "/run"},
        {"kind": "tmpfs", "source": str(site.limits.tmp_mb * MIB), "target": "/tmp"},  # noqa: S108
        {"kind": "tmpfs", "source": str(_SHM_MB * MIB), "target": "/dev/shm"},  # noqa: S108
        {"kind": "bind", "source": str(site.etc), "target": "/etc"},
    ]
    for host, inside, _ in site.folder_pairs():
        steps.append({"kind": "bind", "source": str(host), "target": inside})
    steps.append({"kind": "bind", "source": str(site.control), "target": CONTROL})
    steps.append({"kind": "proc", "source": "proc", "target": "/proc"})
    return steps
