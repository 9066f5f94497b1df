"""A quick look at whether SQLite can walk all pages of a run's files; `mindscope verify` reads what they hold."""

import sqlite3
from contextlib import closing
from typing import Final

from ..database.folder_backend import run_files, run_of_file
from ..errors import StoreUnavailable
from ..upkeep import folder_of

__all__ = ["broken_files"]

#: Bytes of a file that is looked at (our choice: it takes a tenth of a second).
_LARGEST: Final = 1 << 26


def broken_files(url: str, run: str) -> tuple[str, ...]:
    """Return a line for each file of a run in which pages cannot be read; nothing of databases and of large files."""
    try:
        folder = folder_of(url)
    except StoreUnavailable:
        return ()
    found = []
    for path in run_files(folder):
        if run_of_file(path) != run or path.stat().st_size > _LARGEST:
            continue
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0)) as connection:
                ((words,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.OperationalError:  # locked, or gone meanwhile
            continue
        except sqlite3.DatabaseError as error:
            words = str(error)
        if words != "ok":
            found.append(f"{path.name}: {' '.join(str(words).split())}")
    return tuple(found)
