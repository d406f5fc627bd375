"""The sandbox's own /etc: a copy of the few harmless files that programs look for."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

INNER_ID: Final = 1000
"""Uid and gid that the sandbox sees where a user namespace can map them."""

_HOST: Final = Path("/etc")
_NAMES: Final = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "localtime",
    "timezone",
    "fonts",
    "mime.types",
    "magic",
    "protocols",
    "services",
    "os-release",
    "terminfo",
)
_PATTERNS: Final = ("python3*", "java-*", "ImageMagick-*", "texmf", "perl")
_NETWORK: Final = ("resolv.conf", "hosts", "gai.conf")
_PASSWD: Final = (
    "root:x:0:0:root:/:/usr/sbin/nologin\n"
    f"agent:x:{INNER_ID}:{INNER_ID}:agent:/mnt/user-data/workspace:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
)
_GROUP: Final = f"root:x:0:\nagent:x:{INNER_ID}:\nnogroup:x:65534:\n"
_OWN: Final = {
    "passwd": _PASSWD,
    "group": _GROUP,
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "hostname": "sandbox\n",
}
_LARGEST: Final = 8 << 20


def build(folder: Path, *, network: bool, host: Path = _HOST) -> Path:
    """Make the copy below a folder, or take the one that is there and still true. Blocking.

    Args:
        folder: of the sandbox state.
        network: include name resolution.
        host: what to copy from.

    Returns:
        The copy, world-readable.
    """
    sources = list(_sources(host, network))
    digest = hashlib.sha256()
    for name, path in sources:
        info = path.lstat()
        digest.update(f"{name}\0{info.st_mtime_ns}\0{info.st_size}\0".encode())
    target = folder / f"etc-{digest.hexdigest()[:16]}"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        trial = Path(tempfile.mkdtemp(prefix="etc.", dir=folder))
        _fill(trial, sources, network)
        trial.chmod(0o755)
        try:
            trial.rename(target)
        except OSError:  # another server was faster
            shutil.rmtree(trial, ignore_errors=True)
    return target


def _sources(host: Path, network: bool) -> Iterator[tuple[str, Path]]:
    names = [*_NAMES, *(_NETWORK if network else ())]
    for pattern in _PATTERNS:
        names += sorted(path.name for path in host.glob(pattern))
    for name in names:
        path = host / name
        with contextlib.suppress(OSError):
            if path.exists() and path.stat().st_mode & stat.S_IROTH:
                yield name, path


def _fill(target: Path, sources: list[tuple[str, Path]], network: bool) -> None:
    for name, path in sources:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            if path.is_dir():
                shutil.copytree(path, place, symlinks=True, ignore=_unfit)
            elif path.is_symlink() and os.readlink(path).startswith("/usr/"):
                os.symlink(os.readlink(path), place)
            else:
                shutil.copyfile(path, place)
    for name, text in _OWN.items():
        (target / name).write_text(text, encoding="ascii")
    if not network:
        (target / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="ascii")
    for path, folders, files in os.walk(target):
        for entry in (*folders, *files):
            full = Path(path, entry)
            if not full.is_symlink():
                full.chmod(0o755 if full.is_dir() else 0o644)


def _unfit(folder: str, names: list[str]) -> list[str]:
    """What is left out: not for everyone's eyes, large, or no file at all."""
    out: list[str] = []
    for name in names:
        try:
            info = os.lstat(os.path.join(folder, name))
        except OSError:
            out.append(name)
            continue
        plain = stat.S_ISREG(info.st_mode) and info.st_size <= _LARGEST
        fit = stat.S_ISLNK(info.st_mode) or stat.S_ISDIR(info.st_mode) or plain
        open_ = stat.S_ISLNK(info.st_mode) or bool(info.st_mode & stat.S_IROTH)
        if not (fit and open_):
            out.append(name)
    return out
