"""Batches of one attack over processes, of this machine or of many: whatever backend joblib is told to use.

`joblib.parallel_config(backend="dask")` or `"ray"` around the call is all that a cluster needs.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TypeVar

from ..arrays import Rows
from ..errors import InvalidInput

_Found = TypeVar("_Found")


def spread(call: Callable[[Rows], _Found], batches: Sequence[Rows], jobs: int) -> Iterator[_Found]:
    """What the call returns for each batch, in their order; the result does not depend on `jobs`.

    Args:
        call: Can be sent to another process when there is more than one job.
        jobs: Processes at once, -1 for one a core; 1 stays in this one.

    Raises:
        ModuleNotFoundError: More than one job without joblib.
    """
    if jobs == 1 or len(batches) < 2:
        return map(call, batches)
    try:
        joblib = import_module("joblib")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"jobs={jobs} expects joblib, which is not installed; pip install mindscope[cluster], or take jobs=1"
        ) from error
    found: Iterator[_Found] = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(call)(rows) for rows in batches
    )
    return found


def check_jobs(jobs: int) -> None:
    """Raises `InvalidInput` unless the number is 1 or more, or -1."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or (jobs < 1 and jobs != -1):
        raise InvalidInput(f"jobs expects 1 or more, or -1 for one a core, got {jobs!r}")
