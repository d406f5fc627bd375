"""Row 3: the sandbox starts with the first tool that needs it."""

from deerflow.errors import SandboxUnavailableError
from deerflow.middlewares.sandbox import SandboxMiddleware
from deerflow.sandbox.inmemory import InMemoryProvider, InMemorySandbox
from deerflow.sandbox.protocol import ThreadFolders
from fakes.rows import call_tool, request, run_context, tool

ROW = SandboxMiddleware()


async def done() -> str:
    return "done"


async def test_a_tool_without_the_mark_starts_none() -> None:
    run = run_context()
    await call_tool([ROW], run, request(tool("calculator"), run), done)
    await call_tool([ROW], run, request(None, run, name="nothing"), done)
    assert not run.sandbox_started


async def test_a_tool_with_the_mark_starts_it_where_the_shell_last_stood() -> None:
    provider = InMemoryProvider()
    run = run_context(provider=provider)
    state = {"messages": [], "sandbox": {"cwd": {"lead": "/mnt/user-data/outputs"}}}
    await call_tool([ROW], run, request(tool("bash", sandbox=True), run, state), done)
    assert run.sandbox_started
    assert provider.sandboxes["key"].cwds == {"lead": "/mnt/user-data/outputs"}


class NoSandbox(InMemoryProvider):
    async def acquire(self, key: str, folders: ThreadFolders, *, cwd: str = "") -> InMemorySandbox:
        raise SandboxUnavailableError("No isolation here.", cure="Install bubblewrap.")


async def test_without_a_sandbox_the_model_is_told_and_the_tool_not_run() -> None:
    run = run_context(provider=NoSandbox())
    ran: list[bool] = []

    async def effect() -> str:
        ran.append(True)
        return "done"

    answer = await call_tool([ROW], run, request(tool("bash", sandbox=True), run), effect)
    assert answer.status == "error"
    assert answer.content == "Error: No isolation here. Install bubblewrap."
    assert not ran
