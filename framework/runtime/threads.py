"""How many threads BLAS and the kernels use."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..errors import EngineError


def get_threads() -> dict[str, int]:
    """The threads of each library that has a pool: `openblas`, `mkl`, ... (with threadpoolctl), and `numba`."""
    found: dict[str, int] = {}
    if find_spec("threadpoolctl") is not None:
        for pool in import_module("threadpoolctl").threadpool_info():
            name = str(pool["internal_api"])
            found[name] = max(found.get(name, 0), int(pool["num_threads"]))
    numba = sys.modules.get("numba")
    if numba is not None:
        found["numba"] = int(numba.get_num_threads())
    return found


def set_threads(count: int) -> None:
    """Nothing; BLAS and the kernels use that many threads from here on.

    Raises:
        ValueError: The count is less than 1.
        EngineError: threadpoolctl, which reaches BLAS, is not installed.
    """
    _limited(count)
    _set_numba(count)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A block in which BLAS and the kernels use that many threads.

    Raises:
        ValueError: The count is less than 1.
        EngineError: threadpoolctl, which reaches BLAS, is not installed.
    """
    numba = sys.modules.get("numba")
    before = None if numba is None else int(numba.get_num_threads())
    with _limited(count):
        _set_numba(count)
        try:
            yield
        finally:
            if before is not None:
                _set_numba(before)


def _limited(count: int) -> Any:
    if count < 1:
        raise ValueError(f"threads expects a count of 1 or more, got {count}")
    if find_spec("threadpoolctl") is None:
        raise EngineError(
            "the number of BLAS threads is set through threadpoolctl, which is not installed; pip install "
            "threadpoolctl, or set OPENBLAS_NUM_THREADS before Python starts"
        )
    return import_module("threadpoolctl").threadpool_limits(count)


def _set_numba(count: int) -> None:
    numba = sys.modules.get("numba")
    if numba is not None:
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
