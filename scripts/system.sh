#!/bin/sh
# Installs bubblewrap when it is missing and that needs no password; never fails.
set -u
command -v bwrap >/dev/null 2>&1 && exit 0

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

if command -v apt-get >/dev/null 2>&1 && as_root true 2>/dev/null; then
    echo "bubblewrap is missing: installing it" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null || {
        as_root apt-get update -qq >/dev/null
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null
    }
fi
command -v bwrap >/dev/null 2>&1 && exit 0
echo "bubblewrap is missing and cannot be installed from here: the sandbox falls back to Landlock." >&2
echo "For full isolation run 'apt-get install bubblewrap' as root." >&2
exit 0
