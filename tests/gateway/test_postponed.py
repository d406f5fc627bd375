"""Packages that load when they are used; in processes of their own, as modules load once."""

import subprocess
import sys

import pytest

BEGIN = "import sys\nfrom deerflow.gateway.postponed import postpone\npostpone(); postpone()\n"


def told(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + program],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_a_run_needs_loads_no_client():
    program = "import langgraph.runtime, langchain.agents\n"
    program += "print([name for name in ('httpx', 'rich', 'websockets') if name in sys.modules])"
    assert told(program) == "[]"


@pytest.mark.parametrize(
    "line",
    [
        "from langgraph_sdk import get_client; get_client(url='http://127.0.0.1:1')",
        "import langgraph_sdk; langgraph_sdk.get_client(url='http://127.0.0.1:1')",
        "import langgraph_sdk.auth; from langgraph_sdk import Auth; Auth()",
        "from langchain.agents.middleware import AgentMiddleware; AgentMiddleware()",
        "import uvicorn; uvicorn.Config('a:b'); assert uvicorn.__version__",
        "from langgraph_sdk import *",
    ],
)
def test_names_of_the_package_are_there(line: str):
    assert told(line) == ""


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert told("import uvicorn\nprint(hasattr(uvicorn, 'nothing'))") == "False"
