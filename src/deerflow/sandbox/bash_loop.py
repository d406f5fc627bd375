"""The two scripts that keep an agent's shell alive: the keeper (sh) and the loop (bash).

The loop reads requests `KIND NUMBER PIPE SIZE` and SIZE bytes of text, and evaluates the text
itself, so that
directory, variables and functions stay. It answers with NUL-separated fields. When a command
ends its shell
(`exit`, `exec`, a kill), the keeper says so and starts the next one; what runs in the background
lives on.
"""

from __future__ import annotations

from typing import Final

from deerflow.sandbox.confine import COMMANDS_FD, KEEPER_FD, REPLIES_FD
from deerflow.sandbox.tree import MARK

KEEPER: Final = (
    'while :; do /bin/bash --norc --noprofile -c "$1" bash; '
    f"printf 'X\\0%s\\0' \"$?\" >&{KEEPER_FD} || exit 1; done"
)
"""Plain sh; $1 is the loop."""

_SAY = (
    f'{{ builtin printf \'%s\\0\' "$__df_kind" "$__df_call" "$__df_code" "$PWD"; '
    f"builtin declare -px; builtin declare -f; builtin printf '\\0'; }} >&{REPLIES_FD}"
)

# One line, so that messages of bash count the lines of the command and nothing else.
_LOOP = (
    f"exec {KEEPER_FD}>&-; "
    f"builtin ulimit -Su @PIDS@ 2>/dev/null; builtin ulimit -Hu @PIDS@ 2>/dev/null; "
    f"__df_say=@SAY@; __df_call=; "
    f"builtin trap '__df_code=$?; __df_kind=B; builtin eval \"$__df_say\"' EXIT; "
    f"builtin printf 'R\\0%s\\0' $$ >&{REPLIES_FD}; "
    f"while IFS=' ' builtin read -r -u {COMMANDS_FD} __df_kind __df_call __df_pipe __df_size && "
    f'IFS= LC_ALL=C builtin read -r -N "$__df_size" -u {COMMANDS_FD} __df_text; do '
    f"case $__df_kind in "
    f'restore) builtin eval "$__df_text" >/dev/null 2>&1 </dev/null;; '
    f"alone) builtin export {MARK}=$__df_call; "
    # The shell's own output goes there too, so that what an exit trap prints is seen.
    f'exec >"@PIPES@/$__df_pipe" 2>&1; '
    f'builtin eval "$__df_text" </dev/null {COMMANDS_FD}<&-; '
    f"__df_code=$?; exec >/dev/null 2>&1; "
    f'__df_kind=E; builtin eval "$__df_say";; '
    f"fork) ( ( exec {COMMANDS_FD}<&-; __df_set=$-; set +e; builtin export {MARK}=$__df_call; "
    f"builtin printf 'P\\0%s\\0%s\\0' $__df_call $BASHPID >&{REPLIES_FD}; "
    f'( case $__df_set in *e*) set -e;; esac; builtin eval "$__df_text" ) '
    f'>"@PIPES@/$__df_pipe" 2>&1 </dev/null {REPLIES_FD}>&-; '
    f"builtin printf 'F\\0%s\\0%s\\0' $__df_call $? >&{REPLIES_FD} ) & );; "
    f"esac; done; builtin trap - EXIT; builtin kill -9 $PPID"
)


def loop(pids: int | None, pipes: str) -> str:
    """The bash loop.

    Args:
        pids: RLIMIT_NPROC, set here because only inside its user namespace it counts that
            namespace alone;
            None leaves it.
        pipes: folder of the output pipes, as seen inside.
    """
    quoted = "'" + _SAY.replace("'", "'\\''") + "'"
    text = _LOOP.replace("@SAY@", quoted)
    return text.replace("@PIDS@", "unlimited" if pids is None else str(pids)).replace(
        "@PIPES@", pipes
    )
