"""Results that do not depend on how work is shared out among threads."""

from importlib.util import find_spec

from .threads import set_threads

_is_deterministic = [False]


def set_deterministic(deterministic: bool) -> None:
    """Nothing; with True, equal programs give equal bits on one machine from here on.

    The kernels and random numbers of the engine always do. BLAS may share a product out among its threads in ways that
    depend on load, so it gets one thread (where threadpoolctl is installed; otherwise set OPENBLAS_NUM_THREADS=1).

    Raises:
        EngineError: BLAS cannot be told, threadpoolctl being absent.
    """
    if deterministic:
        set_threads(1)
    _is_deterministic[0] = bool(deterministic)


def is_deterministic() -> bool:
    """Whether `set_deterministic(True)` was the last word."""
    return _is_deterministic[0]


def can_be_deterministic() -> bool:
    """Whether BLAS can be told from here."""
    return find_spec("threadpoolctl") is not None
