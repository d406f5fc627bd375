#!/bin/sh
# Starts PostgreSQL and Redis on loopback for the tests, where none answers yet, and installs Node
# for the journeys of the JavaScript SDK and Chromium for tests that look at pages; never fails.
# Data lies below .services; `scripts/services.sh stop` ends what was started here.
set -u
cd "$(dirname "$0")/.." || exit 0
HOME_DIR=$PWD/.services

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

answers() {
    python3 - "$1" <<'PY'
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1).close()
except OSError:
    raise SystemExit(1)
PY
}

install() { # PACKAGE: its own cluster or daemon is not started
    command -v apt-get >/dev/null 2>&1 || return 1
    as_root true 2>/dev/null || return 1
    echo "$1 is missing: installing it" >&2
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" |
        as_root tee /etc/postgresql-common/createcluster.d/deerflow.conf >/dev/null
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1 || {
        as_root apt-get update -qq >/dev/null 2>&1
        as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
            apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1
    }
}

postgres_bin() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }

as_database_user() { # PostgreSQL refuses to run as root
    if [ "$(id -u)" = 0 ]; then
        (cd / && setpriv --reuid=postgres --regid=postgres --clear-groups "$@")
    else "$@"
    fi
}

start_postgres() {
    answers 5432 && return
    [ -n "$(postgres_bin)" ] || install postgresql
    bin=$(postgres_bin)
    [ -n "$bin" ] || { echo "PostgreSQL cannot be installed from here: its tests are skipped." >&2; return; }
    data=$HOME_DIR/postgres
    # A database user may not be able to reach a folder below a home: the socket and data need that.
    if [ "$(id -u)" = 0 ]; then data=/var/tmp/deerflow-services/postgres; fi
    mkdir -p "$data"
    [ "$(id -u)" = 0 ] && chown postgres "$data" && chmod 700 "$data"
    [ -f "$data/PG_VERSION" ] ||
        as_database_user "$bin/initdb" -D "$data" -U root -A trust -E UTF8 --locale=C >/dev/null
    as_database_user "$bin/pg_ctl" -D "$data" -s -w -l "$data/log" \
        -o "-c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp -c max_connections=200" start ||
        { echo "PostgreSQL did not start; see $data/log." >&2; return; }
    as_database_user "$bin/psql" -q -h 127.0.0.1 -U root -d postgres -c 'CREATE DATABASE root' \
        >/dev/null 2>&1
    echo "$data" >"$HOME_DIR/postgres.data"
}

start_redis() {
    answers 6379 && return
    command -v redis-server >/dev/null 2>&1 || install redis-server
    command -v redis-server >/dev/null 2>&1 ||
        { echo "Redis cannot be installed from here: its tests are skipped." >&2; return; }
    mkdir -p "$HOME_DIR/redis"
    redis-server --bind 127.0.0.1 --port 6379 --daemonize yes --save "" --appendonly no \
        --dir "$HOME_DIR/redis" --pidfile "$HOME_DIR/redis.pid" >/dev/null ||
        echo "Redis did not start." >&2
}

find_node() {
    command -v npm >/dev/null 2>&1 && return
    install nodejs
    install npm
}

find_browser() { # Ubuntu's package is a stub that fetches a snap: it counts only when it starts
    for name in chromium chromium-browser google-chrome; do
        "$name" --version >/dev/null 2>&1 && return
    done
    install chromium
    chromium --version >/dev/null 2>&1 ||
        echo "Chromium cannot be installed from here: tests that look at pages are skipped." >&2
}

stop() {
    if [ -f "$HOME_DIR/postgres.data" ]; then
        as_database_user "$(postgres_bin)/pg_ctl" -D "$(cat "$HOME_DIR/postgres.data")" -s -m fast stop
        rm -f "$HOME_DIR/postgres.data"
    fi
    [ -f "$HOME_DIR/redis.pid" ] && kill "$(cat "$HOME_DIR/redis.pid")" && rm -f "$HOME_DIR/redis.pid"
}

mkdir -p "$HOME_DIR"
if [ "${1:-}" = stop ]; then stop; else start_postgres; start_redis; find_node; find_browser; fi
exit 0
