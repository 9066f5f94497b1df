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

#: The stores that this command has read, which know what of them is damaged.
opened_stores: "list[Store]" = []


def open_existing(url: str) -> "Store":
    """Open the store at `url`, which must exist; damaged data is told on stderr, and the rest is shown.

    Raises:
        StoreUnavailable: It does not exist; reading commands never create a store.
    """
    from ..storage import open_store

    require_existing(url)
    opened = open_store(url, on_damage="log")
    opened_stores.append(opened)
    return opened


def require_existing(url: str) -> None:
    """Check that the store at `url` can be read, and exists if it is a path.

    Raises:
        StoreUnavailable: It is a stream, or the path does not exist.
    """
    from ..storage import StoreUnavailable

    require_readable(url)
    if is_path(url) and not Path(url).exists():
        raise StoreUnavailable(
            f"there is no store at {url!r}; name one with --store or MINDSCOPE_STORE, or make one with 'mindscope demo'"
        )


def require_readable(url: str) -> None:
    """Check that the store at `url` is no stream.

    Raises:
        StoreUnavailable: It is one; the message says how it is drained.
    """
    from ..storage import StoreUnavailable
    from ..storage.errors import without_passwords
    from ..storage.streams.stream_store import not_readable
    from ..storage.streams.transport import is_stream

    if is_stream(url):
        raise StoreUnavailable(not_readable(without_passwords(url)))


def is_path(url: str) -> bool:
    """Return True when the store is a folder or a file of this machine."""
    return "://" not in url and not url.startswith("memory:")
