"""A PostgreSQL server and a database with a queue for the tests of racks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import NullPool, create_engine, text
from tests.postgresql import Cluster, server

from tunnelbench import cli

__all__ = ["PLAN", "execute", "plan", "server", "url", "verb"]

PLAN = 'title = "One"\nrounds = 1\n[tcp]\nduration_s = 1\n[[tunnel]]\nkind = "gre"\n'


@pytest.fixture
def url(server: Cluster) -> str:
    made = server.new_database()
    assert verb("jobs", "--setup", "--store", made).exit_code == 0
    return made


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "one.toml"
    path.write_text(PLAN)
    return str(path)


def verb(*words: str) -> Result:
    return CliRunner().invoke(cli.main, words)


def execute(url: str, statement: str, **values: Any) -> list[Any]:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        result = connection.execute(text(statement), values)
        return list(result) if result.returns_rows else []
