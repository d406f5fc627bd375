"""What all sandboxes of a server share, and how one sandbox is set up and torn down."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from deerflow.config.schema import SandboxConfig
from deerflow.errors import SandboxError
from deerflow.sandbox import bwrap, etc, fallback
from deerflow.sandbox.cgroup import PREFIX, Group, Hierarchies, discover, sweep
from deerflow.sandbox.confine import Confinement
from deerflow.sandbox.drain import Drain
from deerflow.sandbox.lease import Lease, Leases
from deerflow.sandbox.limits import MIB, DiskMeter, Limits
from deerflow.sandbox.nursery import Nursery
from deerflow.sandbox.owner import hand_over, may_change_uid, owner_of
from deerflow.sandbox.pipes import OutputPipes
from deerflow.sandbox.protocol import Level, ThreadFolders
from deerflow.sandbox.shell import Ground
from deerflow.sandbox.site import Site, View

_MACHINE: Final = Path("/run")
_PLACES: Final = ("/usr/bin", "/bin", "/usr/local/bin")
_SLOTS: Final = range(1, 1000)
_STANDIN: Final = (
    "#!/bin/sh\n"
    'echo "python: the sandbox has no Python of its own yet; '
    'the operator can build it with: deerflow sandbox build" >&2\nexit 127\n'
)


@dataclass(slots=True)
class Estate:
    """One sandbox's ground and what must be given back.

    Attributes:
        ground: for its shells.
        lease: its slot.
        owner: (uid, gid) it runs as, None for the server's own user.
        control: host folder of its pipes.
    """

    ground: Ground
    lease: Lease
    owner: tuple[int, int] | None
    control: Path


@dataclass(slots=True)
class Premises:
    """Shared parts of a server's sandboxes.

    Attributes:
        config: the section `sandbox`.
        state: folder for pipes, copies and locks.
        python: host folder of the sandbox's Python, None when not built.
        privileged: the server may change uids: every sandbox gets an own one.
        bwrap: bubblewrap's path, "" when missing.
    """

    config: SandboxConfig
    state: Path
    python: Path | None
    privileged: bool = False
    bwrap: str = field(default_factory=lambda: shutil.which("bwrap", path=":".join(_PLACES)) or "")
    nursery: Nursery = field(default_factory=Nursery)
    drain: Drain = field(default_factory=Drain)
    groups: Hierarchies = field(default_factory=Hierarchies)
    etc: Path = Path()
    _opened: bool = False
    _spare: Group | None = None
    _sowing: asyncio.Task[None] | None = None
    _numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def limits(self) -> Limits:
        """The configured numbers."""
        given = self.config.limits
        return Limits(
            memory_mb=given.memory_mb,
            pids=given.pids,
            file_mb=given.file_mb,
            disk_mb=given.disk_mb,
            seconds=self.config.command_seconds,
        )

    @property
    def tag(self) -> str:
        """Part of this server's group names: the same after a restart."""
        return hashlib.sha256(str(self._locks()).encode()).hexdigest()[:8]

    async def open(self) -> None:
        """Find control groups, copy /etc, clear up after servers that died.

        Raises:
            SandboxError: the state folder may not be written.
        """
        if not self._opened:
            try:
                await asyncio.to_thread(self._prepare)
            except OSError as error:
                raise _unwritable(error) from error
            stale: list[int] = []
            await asyncio.to_thread(lambda: self._leases().sweep(stale.append))
            for slot in stale:
                await self._clear(slot)
            self._opened = True

    async def close(self) -> None:
        """End the launcher and the drain."""
        if self._sowing is not None:
            await self._sowing
        await self.nursery.close()
        await self.drain.close()
        if self._spare is not None:
            await asyncio.to_thread(self._spare.remove)
            self._spare = None

    async def settle(
        self, key: str, folders: ThreadFolders, level: Level, *, mounts: bool
    ) -> Estate:
        """Set one sandbox up; no process is started.

        Raises:
            SandboxUnavailableError: no uid is free.
            SandboxError: the state folder or the thread's folders may not be written.
        """
        try:
            lease, estate = await asyncio.to_thread(self._move_in, key, folders, (level, mounts))
        except OSError as error:
            raise _unwritable(error) from error
        if estate is None:  # the slot's last holder died
            await self._clear(lease.slot)
            estate = await asyncio.to_thread(self._furnish, lease, folders, (level, mounts))
        if level != "host":
            self._sow()
        return estate

    async def leave(self, estate: Estate, shells: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """End the shells, then give back group, folder, uid."""
        await asyncio.gather(*(end() for end in shells))
        if estate.owner is not None and estate.ground.plan.tree:
            await self.nursery.purge(estate.owner[0])
        await asyncio.to_thread(_raze, estate)

    def _sow(self) -> None:
        """Have a control group with a waiting process ready for the next sandbox."""
        if self.groups.version != "none" and (self._sowing is None or self._sowing.done()):
            self._sowing = asyncio.ensure_future(self._sow_one())

    async def _sow_one(self) -> None:
        if self._spare is None:
            group = await asyncio.to_thread(self._make_group)
            if group is not None:
                with contextlib.suppress(SandboxError):
                    await self.nursery.seed(group.entries)
                self._spare = group

    # the rest blocks and runs in threads, but for _clear

    def _prepare(self) -> None:
        self.privileged = may_change_uid(self.config.uids)
        self.state.mkdir(parents=True, exist_ok=True)
        self.etc = etc.build(self.state, network=self.config.network == "allow")
        self.groups = discover()
        sweep(self.groups, f"{PREFIX}{self.tag}-")

    def _locks(self) -> Path:
        """Uids belong to the machine, whose servers share the locks; plain slots to the state."""
        if self.privileged and os.access(_MACHINE, os.W_OK):
            return _MACHINE / "deerflow" / "uids"
        return self.state / "leases"

    def _leases(self) -> Leases:
        return Leases(self._locks(), self.config.uids if self.privileged else _SLOTS)

    def _take(self, key: str, folders: ThreadFolders) -> Lease:
        return self._leases().take(key, prefer=owner_of(folders.root))

    def _move_in(
        self, key: str, folders: ThreadFolders, kind: tuple[Level, bool]
    ) -> tuple[Lease, Estate | None]:
        """Lease and estate in one go; no estate where the slot must be cleared first."""
        lease = self._take(key, folders)
        return lease, None if lease.stale else self._furnish(lease, folders, kind)

    def _furnish(self, lease: Lease, folders: ThreadFolders, kind: tuple[Level, bool]) -> Estate:
        try:
            lease.settle()
            return self._build(lease, folders, kind)
        except OSError as error:
            lease.release()
            raise _unwritable(error) from error

    async def _clear(self, slot: int) -> None:
        """End what a server that died left in a slot."""
        if self.privileged:
            await self.nursery.purge(slot)
        await asyncio.to_thread(shutil.rmtree, self._control(slot), True)

    def _control(self, slot: int) -> Path:
        return self.state / "shells" / str(slot)

    def _build(self, lease: Lease, folders: ThreadFolders, kind: tuple[Level, bool]) -> Estate:
        level, mounts = kind
        own = self.privileged and level != "host"
        owner = (lease.slot, lease.slot) if own else None
        hand_over(folders.root, owner, self.config.uids)
        control = self._control(lease.slot)
        shutil.rmtree(control, ignore_errors=True)
        pipes, temp = control / "pipes", control / "tmp"
        pipes.mkdir(parents=True)
        temp.mkdir(mode=0o700)
        if owner is not None:
            os.chown(temp, *owner)
        group = self._group() if level != "host" else None
        site = Site(
            folders=folders,
            control=pipes,
            etc=self.etc,
            python=self.python or self._standin(),
            temp=temp,
            owner=owner,
            groups=tuple(group.entries) if group is not None else (),
            limits=self.limits,
            bounded=group is not None and group.bounds_memory,
            network=self.config.network == "allow",
            environment=dict(self.config.environment),
            shared=tuple(
                (Path(m.host_path), m.container_path, m.read_only) for m in self.config.mounts
            ),
        )
        if level != "bwrap" and not mounts:
            fallback.link_skills(site)
        view, plan = self._plan(site, level, mounts)
        outputs = OutputPipes(pipes, owner)
        outputs.prepare()
        ground = Ground(
            site=site,
            view=view,
            plan=plan,
            nursery=self.nursery,
            drain=self.drain,
            pipes=outputs,
            meter=DiskMeter((folders.root, temp), self.limits.disk_mb * MIB),
            group=group,
            max_chars=self.config.bash_output_max_chars,
            numbers=count(1),
        )
        return Estate(ground, lease, owner, control)

    def _plan(self, site: Site, level: Level, mounts: bool) -> tuple[View, Confinement]:
        if level == "bwrap":
            return View(), bwrap.plan(site, self.bwrap, View())
        if level == "landlock":
            return (
                fallback.landlock_view(site, mounts=mounts),
                fallback.landlock_plan(site, mounts=mounts),
            )
        return fallback.host_view(site), fallback.host_plan(site)

    def _group(self) -> Group | None:
        spare, self._spare = self._spare, None
        return spare or self._make_group()

    def _make_group(self) -> Group | None:
        if self.groups.version == "none":
            return None
        name = f"{PREFIX}{self.tag}-{os.getpid()}-{next(self._numbers)}"
        group = Group(self.groups, name)
        try:
            group.make(self.limits)
        except OSError:
            group.remove()
            return None
        return group

    def _standin(self) -> Path:
        """A `python` that names the cure, for the time before one is built."""
        folder = self.state / "no-python"
        script = folder / "bin" / "python"
        if not script.exists():
            script.parent.mkdir(parents=True, exist_ok=True)
            trial = script.with_name(f"python.{os.getpid()}")
            trial.write_text(_STANDIN, encoding="ascii")
            trial.chmod(0o755)
            trial.replace(script)
        return folder


def _unwritable(error: OSError) -> SandboxError:
    return SandboxError(
        f"The sandbox's folders could not be made: {error.strerror}.",
        cure="Check owner, mode and free space of the DEER_FLOW_HOME folder.",
    )


def _raze(estate: Estate) -> None:
    estate.ground.pipes.close()
    if estate.ground.group is not None:
        estate.ground.group.remove()
    shutil.rmtree(estate.control, ignore_errors=True)
    with contextlib.suppress(OSError):
        estate.lease.release()
