"""Matrix products, large ones split between threads by rows or columns of the result."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...shape import Spec
from .threads import at_once, parts_of, thread_count

__all__ = ["product"]

# Multiplications below which waking a thread costs more than it saves. Our choice: about 100 us of one core.
_WORTH_A_THREAD = 4_000_000


def product(a: Spec, b: Spec, out: Spec) -> Callable[..., Any]:
    """`run(a, b, out)` for arrays of these specs."""
    count = thread_count()
    if count == 1 or out.size * a.shape[-1] < _WORTH_A_THREAD * count or len(out.shape) < 2:
        return np.matmul
    if len(out.shape) > 2:
        return _by_stack(a, b, out, count) if out.shape[0] >= count else np.matmul
    if out.shape[0] >= out.shape[1]:
        rows = parts_of(out.shape[0], count)
        return lambda a, b, out: at_once([(np.matmul, (a[part], b, out[part])) for part in rows])
    columns = parts_of(out.shape[1], count)
    return lambda a, b, out: at_once([(np.matmul, (a, b[:, part], out[:, part])) for part in columns])


def _by_stack(a: Spec, b: Spec, out: Spec, count: int) -> Callable[..., Any]:
    parts = parts_of(out.shape[0], count)
    cut_a, cut_b = (x.shape[:1] == out.shape[:1] and len(x.shape) == len(out.shape) for x in (a, b))

    def run(a: Any, b: Any, out: Any) -> None:
        at_once([(np.matmul, (a[part] if cut_a else a, b[part] if cut_b else b, out[part])) for part in parts])

    return run
