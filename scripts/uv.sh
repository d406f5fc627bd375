#!/bin/sh
# Runs uv with the given arguments; makes a private one in .uv/ when the machine has none.
set -eu
cd "$(dirname "$0")/.."

works() { "$1" --version >/dev/null 2>&1; }

say() { printf '%s\n' "$*" >&2; }

as_root() { # runs a command as root when that needs no password
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

# The machine's own certificates, where it has any, so that a company's proxy is trusted too.
if [ -z "${SSL_CERT_FILE:-}" ] && [ -s /etc/ssl/certs/ca-certificates.crt ]; then
    export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true
fi

if works uv; then exec uv "$@"; fi
if works .uv/bin/uv; then exec .uv/bin/uv "$@"; fi

if ! command -v python3 >/dev/null 2>&1; then
    as_root apt-get update -qq >/dev/null && as_root apt-get install -y -qq python3 python3-venv >/dev/null || {
        say "python3 is missing. Install it (apt-get install python3 python3-venv) and run make again."
        exit 1
    }
fi

say "uv is missing: making a private one in .uv/"
rm -rf .uv
if ! python3 -m venv .uv >/dev/null 2>&1; then
    rm -rf .uv
    if as_root true 2>/dev/null && command -v apt-get >/dev/null 2>&1; then
        say "python3-venv is missing: installing it"
        as_root apt-get update -qq >/dev/null || true
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null || true
    fi
    python3 -m venv .uv >/dev/null 2>&1 || rm -rf .uv
fi
if [ -d .uv ]; then
    .uv/bin/python -m pip install -q uv >&2
elif python3 -m pip --version >/dev/null 2>&1; then
    # No venv module and no root, but a pip: it can fill a folder of its own.
    python3 -m pip install -q --prefix "$PWD/.uv" --no-warn-script-location --ignore-installed uv >&2
    [ -x .uv/bin/uv ] || { [ -x .uv/local/bin/uv ] && mkdir -p .uv/bin && ln -s ../local/bin/uv .uv/bin/uv; }
else
    say "uv cannot be installed: there is no uv, no python3-venv, no pip, and no right to install them."
    say "Ask an administrator for 'apt-get install python3-venv', or put uv on the PATH; then run make again."
    exit 1
fi
works .uv/bin/uv || { say "the private uv in .uv/ does not start; remove .uv/ and run make again."; exit 1; }
exec .uv/bin/uv "$@"
