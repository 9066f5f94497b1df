"""The options and arguments that several subcommands share, and how a store is opened for reading."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from ..storage import Store

#: The store of commands by default.
DEFAULT_STORE: Final = "runs/"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store", envvar="MINDSCOPE_STORE", metavar="URL", help="A folder, one run file, or postgresql+psycopg://..."
    ),
]

StoreArgument = Annotated[
    str,
    typer.Argument(
        envvar="MINDSCOPE_STORE", metavar="[STORE]", help="A folder, one run file, or postgresql+psycopg://..."
    ),
]

#: Commands about a whole store take it as their argument; `--store` works there, too.
SameStoreOption = Annotated[str, typer.Option("--store", metavar="URL", help="The same as STORE.")]

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="An id, a unique prefix of one, a name, or 'latest'.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]


def open_existing(url: str) -> "Store":
    """Open the store at `url`, which must exist.

    Raises:
        StoreUnavailable: It does not exist; reading commands never create a store.
    """
    from ..storage import open_store

    require_existing(url)
    return open_store(url)


def require_existing(url: str) -> None:
    """Check that the store at `url` exists, if it is a path.

    Raises:
        StoreUnavailable: The path does not exist.
    """
    from ..storage import StoreUnavailable

    if is_path(url) and not Path(url).exists():
        raise StoreUnavailable(
            f"there is no store at {url!r}; name one with --store or MINDSCOPE_STORE, or make one with 'mindscope demo'"
        )


def is_path(url: str) -> bool:
    """Return True when the store is a folder or a file of this machine."""
    return "://" not in url and not url.startswith("memory:")
