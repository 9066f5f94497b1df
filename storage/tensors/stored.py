"""Whole tensors of a run as arrays: what `dump` and the flight recorder have stored, by step, site and subject."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from numpy.typing import NDArray

from ..errors import StoreUnavailable
from ..names import display_site
from ..run import Run
from ..store import Store
from .blobs import Blobs, blobs_of

__all__ = ["StoredTensor", "read_tensors", "remove_tensors", "tensor_files"]

#: Events of a rank that are looked through.
_ALL: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensor:
    """A tensor as it was at one moment.

    Args:
        site: Of the module or parameter; with `[0]` and the like behind it where a module has several.
        subject: `input`, `activation`, `activation_grad`, `gradient`, or `weight`: as it was before the step.
        call: Which call of the module in the micro-step.
        array: In the dtype and shape that it had; not to be written to.
    """

    step: int
    site: str
    subject: str
    call: int
    micro_step: int
    array: NDArray[Any]


def read_tensors(
    store: Store,
    run: str,
    *,
    site: str = "*",
    subject: str | None = None,
    rank: int = 0,
    first: int | None = None,
    last: int | None = None,
) -> Iterator[StoredTensor]:
    """The whole tensors of a run in the order of their steps; each is read from its file when it is reached.

    Args:
        run: An id, a unique prefix, a name, or `latest`.
        site: A glob; a module's name also stands for its several tensors.
        subject: None for all.
        first: The first step, and `last` the last one, both included.

    Raises:
        RunNotFound: There is no such run.
        StoreUnavailable, StoreDamaged: A file is not there, or not what was written.
    """
    found = store.find_run(run)
    files = tensor_files(store, found)
    events = store.events(found.id, rank=rank, kind="tensor", limit=_ALL)
    for one in sorted(events, key=lambda event: (event.step, event.micro_step)):
        names = {display_site(one.site), display_site(one.site.partition("[")[0])}
        if not any(fnmatchcase(name, site) for name in names) or subject not in (None, one.data["subject"]):
            continue
        if (first is None or one.step >= first) and (last is None or one.step <= last):
            array = files.get(str(one.data["digest"]))
            call = int(str(one.data["call"]))
            yield StoredTensor(one.step, one.site, str(one.data["subject"]), call, one.micro_step, array)


def remove_tensors(store: Store, run: Run) -> None:
    """Nothing; the whole tensors of the run are gone, as far as their files can be reached."""
    with suppress(StoreUnavailable):
        tensor_files(store, run).remove()


def tensor_files(store: Store, run: Run) -> Blobs:
    """Where the whole tensors of the run are: beside it, or where its configuration puts them.

    Raises:
        StoreUnavailable: The store is no folder, and the configuration names none.
    """
    dump = run.config.get("dump")
    folder = dump.get("folder") if isinstance(dump, dict) else None
    return blobs_of(store.url, run.id, folder if isinstance(folder, str) else None)
