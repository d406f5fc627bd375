"""The commands that serve: joined to those of the terminal; their work is imported when chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.app import app, main
from deerflow.cli.exits import finish
from deerflow.cli.source import read
from deerflow.errors import UsageError
from deerflow.gateway.config import GatewayConfig

__all__ = ["app", "main"]

users = typer.Typer(help="Accounts of the server: create, lock, passwords.", no_args_is_help=True)
app.add_typer(users, name="users")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file.", show_default=False),
]
HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
PublicOption = Annotated[
    str, typer.Option("--public-url", metavar="URL", help="Address that people use, if another.")
]
ProxyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        metavar="ADDRESS",
        help="Proxy whose forwarding headers are believed; repeatable.",
    ),
]
OriginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--cors-origin", metavar="URL", help="Site whose pages may call the API; repeatable."
    ),
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host", metavar="NAME", help="Host name that requests may name; repeatable."
    ),
]
SecureOption = Annotated[
    bool, typer.Option("--secure-cookies", help="Send cookies over HTTPS only.")
]
NoWorkerOption = Annotated[
    bool, typer.Option("--no-worker", help="Execute no runs; `deerflow worker` does.")
]
PersonArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address or id.")]
StdinOption = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]


@app.command()
def serve(  # noqa: PLR0913  (one parameter per option)
    *,
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 = any free one.")
    ] = 2026,
    config: ConfigOption = None,
    public_url: PublicOption = "",
    trusted_proxy: ProxyOption = None,
    cors_origin: OriginOption = None,
    allowed_host: HostsOption = None,
    secure_cookies: SecureOption = False,
) -> None:
    """Serve the API and the web UI, and execute runs: everything in one process.

    Exit codes: 0 stopped by a signal; 1 it cannot start; 2 bad usage or configuration.
    """
    asked = GatewayConfig(
        host=host,
        port=port,
        public_url=public_url,
        cookies_secure=secure_cookies,
        proxies=tuple(trusted_proxy or ()),
        origins=tuple(cors_origin or ()),
        hosts=tuple(allowed_host or ()),
    )
    finish(lambda: _serve(config, asked))


@app.command()
def gateway(  # noqa: PLR0913  (one parameter per option)
    *,
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 = any free one.")
    ] = 8001,
    no_worker: NoWorkerOption = False,
    config: ConfigOption = None,
    public_url: PublicOption = "",
    trusted_proxy: ProxyOption = None,
    cors_origin: OriginOption = None,
    allowed_host: HostsOption = None,
    secure_cookies: SecureOption = False,
) -> None:
    """Serve the API without the web UI.

    Exit codes: 0 stopped by a signal; 1 it cannot start; 2 bad usage or configuration.
    """
    asked = GatewayConfig(
        host=host,
        port=port,
        execute=not no_worker,
        public_url=public_url,
        cookies_secure=secure_cookies,
        proxies=tuple(trusted_proxy or ()),
        origins=tuple(cors_origin or ()),
        hosts=tuple(allowed_host or ()),
    )
    finish(lambda: _serve(config, asked))


@app.command()
def worker(
    *,
    config: ConfigOption = None,
    metrics_port: Annotated[
        int,
        typer.Option(
            "--metrics-port",
            metavar="N",
            min=0,
            max=65535,
            help="Port of this machine for /metrics; 0 = none.",
        ),
    ] = 0,
    until_stdin_ends: Annotated[
        bool,
        typer.Option(
            "--until-stdin-ends", hidden=True, help="End when standard input does, as well."
        ),
    ] = False,
) -> None:
    """Execute runs that other processes take in; any number of these may run.

    Exit codes: 0 stopped by a signal; 1 it cannot start; 2 bad usage or configuration.
    """

    def work() -> int:
        from deerflow.gateway.workers import work  # noqa: PLC0415  (--help stays quick)

        loaded, environ = read(config)
        if loaded.config.database.backend == "memory":
            raise UsageError(
                "A worker needs a database that others reach.",
                cure="Set database.backend to sqlite or postgres.",
            )
        return work(loaded, environ, until_stdin_ends=until_stdin_ends, metrics_port=metrics_port)

    finish(work)


@users.command("create")
def create_user(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address.")],
    *,
    admin: Annotated[bool, typer.Option("--admin", help="Make it an admin.")] = False,
    password_stdin: StdinOption = False,
    config: ConfigOption = None,
) -> None:
    """Make an account; the password is asked for."""
    from deerflow.gateway import users as work  # noqa: PLC0415  (start of --help stays quick)

    role = "admin" if admin else "user"
    finish(lambda: work.create(config, email, role, from_stdin=password_stdin))


@users.command("list")
def list_users(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    config: ConfigOption = None,
) -> None:
    """List accounts, oldest first."""
    from deerflow.gateway import users as work  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: work.show(config, as_json=as_json))


@users.command("disable")
def disable_user(who: PersonArgument, *, config: ConfigOption = None) -> None:
    """Lock an account and end its sessions and tokens."""
    from deerflow.gateway import users as work  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: work.activate(config, who, active=False))


@users.command("enable")
def enable_user(who: PersonArgument, *, config: ConfigOption = None) -> None:
    """Open a locked account again."""
    from deerflow.gateway import users as work  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: work.activate(config, who, active=True))


@users.command("role")
def change_role(
    who: PersonArgument,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin or user.")],
    *,
    config: ConfigOption = None,
) -> None:
    """Make somebody admin or user; the last admin stays one."""
    from deerflow.gateway import users as work  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: work.change_role(config, who, role))


@users.command("passwd")
def set_password(
    who: PersonArgument, *, password_stdin: StdinOption = False, config: ConfigOption = None
) -> None:
    """Set a new password and end the account's sessions."""
    from deerflow.gateway import users as work  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: work.set_password(config, who, from_stdin=password_stdin))


@users.command("token")
def make_token(
    who: PersonArgument,
    *,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What it is for.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="NAME", help="What it may do; repeatable; none = all of the role."
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", metavar="N", min=1, help="Days that it works.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Make an API token and print it; it is shown once."""
    from deerflow.gateway import users as work  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: work.make_token(config, who, name, scopes=scope or [], days=days))


def _serve(config: Path | None, asked: GatewayConfig) -> int:
    from deerflow.gateway.server import serve  # noqa: PLC0415  (uvicorn)

    loaded, environ = read(config)
    disabled = environ.get("DEER_FLOW_AUTH_DISABLED", "").strip().lower() in ("1", "true", "yes")
    return serve(replace(asked, auth_disabled=disabled), loaded, environ)
