"""Whole tensors beside a run: content-addressed safetensors files, where equal tensors are stored once.

    <store>/<run>.tensors/<first two letters>/<digest>.safetensors

A file is written under another name and renamed, so that a reader never sees an incomplete one. The digest is of dtype,
shape and bytes (BLAKE2b, 128 bits): equal digests are equal tensors.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save

from .errors import StoreDamaged, StoreUnavailable
from .metric_series import display_site
from .run_info import Run
from .store import Store

_SUFFIX = ".safetensors"
_NAME = "tensor"
_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}


@dataclass(frozen=True, slots=True)
class Blob:
    """One stored tensor.

    Args:
        digest: 32 hexadecimal digits.
        size_bytes: Size of its values.
        is_new: Whether it was not stored before.
    """

    digest: str
    size_bytes: int
    is_new: bool


class Blobs:
    """The tensors of one run.

    Args:
        folder: Created with the first tensor.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, array: NDArray[Any]) -> Blob:
        """Store the tensor unless it is stored already, and return its digest.

        Raises:
            TypeError: safetensors has no such dtype.
            OSError: The file cannot be written.
        """
        kind = _DTYPES.get(array.dtype.name)
        if kind is None:
            raise TypeError(f"tensors of dtype {array.dtype} cannot be stored; use one of {', '.join(_DTYPES)}")
        digest, size = _digest(array), array.nbytes
        path = self._path(digest)
        if path.exists():
            return Blob(digest, size, is_new=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting = path.with_suffix(f".{os.getpid()}.part")
        try:
            waiting.write_bytes(save({_NAME: np.ascontiguousarray(array).reshape(array.shape)}))
            waiting.replace(path)
        finally:
            waiting.unlink(missing_ok=True)
        return Blob(digest, size, is_new=True)

    def get(self, digest: str) -> NDArray[Any]:
        """Return the tensor of that digest.

        Raises:
            StoreUnavailable: There is no such file.
            StoreDamaged: The file is damaged.
        """
        path = self._path(digest)
        try:
            ((_, entry),) = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
        except FileNotFoundError:
            raise StoreUnavailable(f"tensor {digest} is not in {self.folder}; was the folder moved?") from None
        except (safetensors.SafetensorError, ValueError) as error:
            raise StoreDamaged(f"{path} is damaged: {error}; remove it") from error
        names = {kind: name for name, kind in _DTYPES.items()}
        name = names[entry["dtype"]]
        dtype = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
        array: NDArray[Any] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
        if _digest(array) != digest:
            raise StoreDamaged(f"{path} is damaged: its values are not those of its name; remove it")
        return array

    def damaged(self) -> list[str]:
        """Return a line for each file whose tensor is not that of its name."""
        return [words for _, words in self.damaged_files()]

    def damaged_files(self) -> list[tuple[Path, str]]:
        """Return the files whose tensor is not that of their name, and what is wrong with each."""
        found = []
        for path in sorted(self.folder.glob(f"*/*{_SUFFIX}")):
            try:
                self.get(path.stem)
            except (StoreDamaged, StoreUnavailable) as error:
                found.append((path, str(error)))
        return found

    def size_bytes(self) -> int:
        """Return the size of all files."""
        return sum(path.stat().st_size for path in self.folder.glob(f"*/*{_SUFFIX}"))

    def remove(self) -> None:
        """Delete the files of the run's tensors, as far as possible."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, digest: str) -> Path:
        if len(digest) != 32 or not set(digest) <= set("0123456789abcdef"):
            raise StoreUnavailable(f"{digest!r} is no digest of a tensor; expected 32 hexadecimal digits")
        return self.folder / digest[:2] / f"{digest}{_SUFFIX}"


def _digest(array: NDArray[Any]) -> str:
    state = blake2b(f"{array.dtype.name}{array.shape}".encode(), digest_size=16)
    state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def blobs_of(url: str, run: str, folder: str | Path | None = None) -> Blobs:
    """Return the tensors of a run.

    Args:
        url: URL of the store; a folder contains the tensors.
        folder: The folder of the tensors; needed for a database and for memory.

    Raises:
        StoreUnavailable: The store is no folder, and no folder was given.
    """
    if folder is not None:
        return Blobs(Path(folder) / f"{run}.tensors")
    if "://" in url or url.startswith("memory:"):
        raise StoreUnavailable(f"a store at {url.partition('@')[0]} cannot hold whole tensors; name a folder for them")
    path = Path(url)
    return Blobs((path.parent if path.suffix == ".db" else path) / f"{run}.tensors")


#: Most events of a rank that are read.
_ALL: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensor:
    """A whole tensor of one step.

    Args:
        site: Site of the module or parameter, followed by `[0]` and so on if a module has several tensors.
        subject: `input`, `activation`, `activation_grad`, `gradient`, or `weight` (before the step).
        call: Which call of the module in the micro-step.
        array: The values in their original dtype and shape; read-only.
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
    rank: int | None = None,
    first: int | None = None,
    last: int | None = None,
) -> Iterator[StoredTensor]:
    """Yield the whole tensors of a run in the order of their steps; each is read from its file only then.

    Args:
        run: An id, a unique prefix, a name, or `latest`.
        site: A glob; a module's name also stands for its several tensors.
        subject: None for all.
        rank: The first of the run by default.
        first: The first step, and `last` the last one, both included.

    Raises:
        RunNotFound: There is no such run.
        StoreUnavailable, StoreDamaged: A file is missing or damaged.
    """
    found = store.find_run(run)
    files = tensor_files(store, found)
    events = store.events(found.id, rank=rank, kind="tensor", limit=_ALL)
    for event in sorted(events, key=lambda event: (event.step, event.micro_step)):
        names = {display_site(event.site), display_site(event.site.partition("[")[0])}
        if not any(fnmatchcase(name, site) for name in names) or subject not in (None, event.data["subject"]):
            continue
        if (first is None or event.step >= first) and (last is None or event.step <= last):
            array = files.get(str(event.data["digest"]))
            call = int(str(event.data["call"]))
            yield StoredTensor(event.step, event.site, str(event.data["subject"]), call, event.micro_step, array)


def remove_tensors(store: Store, run: Run) -> None:
    """Delete the whole tensors of the run, as far as possible."""
    with suppress(StoreUnavailable):
        tensor_files(store, run).remove()


def tensor_files(store: Store, run: Run) -> Blobs:
    """Return the whole tensors of the run: beside it, or in the folder of its configuration.

    Raises:
        StoreUnavailable: The store is no folder, and the configuration names none.
    """
    dump = run.config.get("dump")
    folder = dump.get("folder") if isinstance(dump, dict) else None
    return blobs_of(store.url, run.id, folder if isinstance(folder, str) else None)
