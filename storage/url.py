"""From a URL to a store: a folder, one run's file, a PostgreSQL database, or memory."""

from pathlib import Path

from .archive import Archive
from .errors import InvalidName, StoreUnavailable, nearest
from .folder import Folder
from .memory import MemoryStore
from .store import Store

_SCHEMES = ("postgresql+psycopg", "postgresql", "memory", "file", "sqlite")


def open_store(url: str | Path) -> Store:
    """The store at `url`: `runs/`, one run file `x.rank0.db`, `postgresql+psycopg://...` or `memory:`.

    A folder that is not there yet is an empty store; it is made when the first run begins.

    Raises:
        InvalidName: The URL has an unknown scheme.
        StoreUnavailable: The file is not there, or the database does not answer.
    """
    text = str(url)
    if text == "memory:":
        return MemoryStore()
    scheme, mark, _ = text.partition("://")
    if mark:
        if scheme in ("postgresql+psycopg", "postgresql"):
            raise StoreUnavailable("PostgreSQL is not supported yet")
        raise InvalidName(
            f"store {text!r} has an unknown scheme {scheme!r}{nearest(scheme, _SCHEMES)}; give a folder, a run file, "
            f"postgresql+psycopg://... or memory:"
        )
    path = Path(text).expanduser()
    if path.suffix == ".db":
        if not path.is_file():
            raise StoreUnavailable(f"{path} is not there; give the folder of the runs, or a run's file in it")
        return Archive(Folder(path.parent, text, only=path))
    if path.exists() and not path.is_dir():
        raise StoreUnavailable(f"{path} is neither a folder nor a run file (*.rank0.db)")
    return Archive(Folder(path, text))
