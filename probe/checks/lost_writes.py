"""Are values that a model writes to one place more than once added up, as messages along edges must be?"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from ..user_line import user_line
from .check_result import CheckResult, broken, held
from .function_mode import FunctionMode
from .model_probe import ModelProbe

KEPT = "writes_to_one_place_are_added_up"
_CLAIM = "what a model adds to one place of a tensor more than once is added up"
#: Functions of which the last of several values for one place stays, by the position of index and values.
_WRITERS: Final = frozenset({"scatter", "scatter_", "index_copy", "index_copy_"})
#: Places that must lose something: one alone may be where padding goes.
_FEWEST: Final = 2
#: Elements of an index that is looked at.
_MOST: Final = 1 << 18


def repeated_writes_are_added_up(probe: ModelProbe) -> CheckResult | None:
    """Return whether an index that names places more than once loses what is added there; None if nothing is written.

    `total[index] += values` reads, adds and writes: of several values for one place one stays, and torch leaves open
    which. `scatter` and `index_copy` do the same. A place that is written twice with the same values loses nothing.

    Raises:
        NotAnswered: The time for checks is used up.
    """
    tape = _Writes()
    if not tape.begin():
        return None
    try:
        probe.answers({}, with_gradients=True)
    finally:
        tape.leave()
    if tape.lost:
        return broken(KEPT, _CLAIM, tape.lost[0][0], lost=tape.lost[0][1], places=tape.lost[0][2])
    return held(KEPT, _CLAIM) if tape.writes else None


class _Writes(FunctionMode):
    """Notes what is written while it is on the stack.

    Attributes:
        writes: Writes to places by their numbers.
        lost: What they lose: the counterexample, and numbers of values and of places.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writes, self.lost = 0, list[tuple[str, int, int]]()
        self._read: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def before(self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Look at a write while the values are as they come."""
        name = getattr(function, "__name__", "")
        if self.lost:
            return None
        if name == "__setitem__" and _is_tensor(args[2]):
            self._set(*args[:3])
        elif name in _WRITERS and len(args) > 3 and not options and all(map(_is_tensor, args[2:4])):
            self._scattered(name, *args[:4])
        return function if name == "__getitem__" else None

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Note what is read by an index, so that a write to the same places is known as an addition."""
        index = _index_of(args[1]) if _is_tensor(args[0]) else None
        if index is not None:
            self._read[_key(args[0], index)] = (args[0], index, result)  # kept alive: their ids stay theirs

    def _set(self, tensor: torch.Tensor, index: Any, values: torch.Tensor) -> None:
        numbers = _index_of(index)
        if numbers is None or not numbers[0].numel() or numbers[0].numel() > _MOST:
            return
        self.writes += 1
        if _key(tensor, numbers) not in self._read:
            return  # values that replace what was there
        is_in_place = values is self._read[_key(tensor, numbers)][2]
        places = torch.stack([one.reshape(-1) for one in torch.broadcast_tensors(*numbers)], 1)
        rows = None
        if not is_in_place:
            rows = values.detach().expand(tensor.detach()[index].shape)
            axes = max(one.dim() for one in numbers)
            leading = 0 if not isinstance(index, tuple) else next(at for at, one in enumerate(index) if _is_tensor(one))
            rows = rows.movedim(tuple(range(leading, leading + axes)), tuple(range(axes)))
            rows = rows.reshape(len(places), -1)
        self._judge("a tensor", places, rows)

    def _scattered(self, name: str, tensor: torch.Tensor, axis: Any, index: torch.Tensor, values: torch.Tensor) -> None:
        if not isinstance(axis, int) or not 0 < index.numel() <= _MOST or not values.requires_grad:
            return
        self.writes += 1
        if name.startswith("index"):
            self._judge(name, index.reshape(-1, 1), values.detach().movedim(axis, 0).reshape(index.numel(), -1))
            return
        grids = list(torch.meshgrid(*[torch.arange(size, device=index.device) for size in index.shape], indexing="ij"))
        grids[axis] = index
        part = values.detach()[tuple(slice(size) for size in index.shape)]
        self._judge(name, torch.stack([grid.reshape(-1) for grid in grids], 1), part.reshape(-1, 1), axis)

    def _judge(self, what: str, places: torch.Tensor, rows: torch.Tensor | None, axis: int | None = None) -> None:
        """Note what is lost where rows `(writes, columns)` go to these places `(writes, axes)`.

        Args:
            axis: The one along which places are named; all of them where it is left out.
        """
        found, number, counts = places.unique(dim=0, return_inverse=True, return_counts=True)
        repeated = counts > 1
        if rows is not None:
            first = torch.full((len(found),), len(places), device=places.device)
            first = first.scatter_reduce(0, number, torch.arange(len(places), device=places.device), "amin")
            differs = (rows != rows[first[number]]).any(1)
            repeated &= torch.zeros(len(found), dtype=torch.bool, device=places.device).index_fill(
                0, number[differs].unique(), True
            )
        if len(found[repeated] if axis is None else found[repeated, axis].unique()) < _FEWEST:
            return
        lost = int((counts[repeated] - 1).sum())
        file, line = user_line(str(Path(torch.__file__).parent))
        where = f"{Path(file).name}:{line}: " if line else ""
        words = (
            f"{where}{'an index' if what == 'a tensor' else f'the index of {what}'} names {int(repeated.sum())} of "
            f"{len(found)} places more than once, and of the values for each the last one alone is kept: "
            f"{lost} of {len(places)} are lost"
        )
        self.lost.append((words, lost, int(repeated.sum())))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _index_of(index: Any) -> tuple[torch.Tensor, ...] | None:
    """Return the whole numbers of an index; None of one that holds anything else but slices, or no tensor."""
    parts = index if isinstance(index, tuple) else (index,)
    numbers = tuple(one for one in parts if _is_tensor(one))
    is_plain = all(_is_tensor(one) or isinstance(one, slice) for one in parts)
    is_whole = all(one.dtype in (torch.int64, torch.int32) and one.dim() for one in numbers)
    at = [where for where, one in enumerate(parts) if _is_tensor(one)]
    is_together = bool(at) and at[-1] - at[0] + 1 == len(at)
    return numbers if is_plain and is_whole and is_together else None


def _key(tensor: torch.Tensor, index: tuple[torch.Tensor, ...]) -> tuple[int, ...]:
    return (id(tensor), *(number for one in index for number in (one.data_ptr(), *one.shape, *one.stride())))
