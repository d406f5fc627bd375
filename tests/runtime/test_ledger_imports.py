"""What a ledger on SQLite loads of DBOS; in processes of their own, as modules load once."""

import subprocess
import sys

import pytest

LOADED = """
import sys
from deerflow.runtime.ledger_imports import UNUSED, load_dbos
load_dbos(lean={lean})
print(sorted(UNUSED & set(sys.modules)))
"""


def told(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_file_needs_neither_orm_nor_driver():
    assert told(LOADED.format(lean=True)) == "[]"


def test_a_server_has_everything():
    loaded = "['croniter', 'psycopg', 'sqlalchemy.ext.asyncio', 'sqlalchemy.orm', 'yaml']"
    assert told(LOADED.format(lean=False)) == loaded


def test_others_import_as_ever():
    program = LOADED.format(lean=True) + "\nfrom sqlalchemy.orm import Session; Session()"
    assert told(program) == "[]"


@pytest.mark.parametrize("use", ["SQLAlchemyDatasource.create('sqlite:///x.db')"])
def test_what_is_left_out_fails_aloud(use: str):
    program = (
        LOADED.format(lean=True)
        + f"""
import dbos
try:
    dbos.{use}
except ImportError as error:
    print(error)
"""
    )
    assert "left out of a ledger on SQLite" in told(program)
