"""Finds uv, and says how it is to be started on this machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Debian and its kin keep the certificates that the machine trusts."""


def find_uv() -> str | None:
    """Beside this interpreter, in a private `.uv` next to its environment, or on the PATH."""
    places = (Path(sys.executable).with_name("uv"), Path(sys.prefix).with_name(".uv") / "bin/uv")
    return next((str(path) for path in places if path.is_file()), None) or shutil.which("uv")


def trusting(certificates: Path = CERTIFICATES) -> tuple[str, ...]:
    """Words before a command line of uv that make it trust what the machine trusts.

    uv brings its own list of certificates, which knows nothing of a company's proxy. The second
    name is that of older versions. SSL_CERT_FILE goes before both.

    Args:
        certificates: nothing is said when this file is not there.
    """
    if not certificates.is_file():
        return ()
    return ("/usr/bin/env", "UV_SYSTEM_CERTS=true", "UV_NATIVE_TLS=true")
