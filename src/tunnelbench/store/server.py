"""A database server, such as PostgreSQL, as the store of a team."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import NoSuchModuleError, OperationalError

from tunnelbench.model.errors import CannotHere, WrongInput


def open_server(url: URL) -> Engine:
    """An engine for a database URL; WrongInput or CannotHere where this installation cannot speak to its kind."""
    try:
        return create_engine(url)
    except NoSuchModuleError as error:
        raise WrongInput(f"{url}: there is no database of the kind {url.drivername}") from error
    except ModuleNotFoundError as error:
        raise CannotHere(
            f"{url}: the Python package {error.name} is missing", hint=f"pip install {error.name}"
        ) from error


@contextmanager
def explained(url: URL) -> Iterator[None]:
    """Turns a server that is not there, or refuses, into a sentence; the URL is shown without its password."""
    try:
        yield
    except OperationalError as error:
        why = str(error.orig).strip().partition("\n")[0]
        raise CannotHere(f"{url}: {why}", hint="is the server up, and are user and password right?") from error
