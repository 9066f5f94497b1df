"""Are the rows of a batch the same rows in all tensors that it is taken from? Read from how a program indexes them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import log
from pathlib import Path
from typing import Any, Final
from weakref import ref

import torch

from ..aside import checking, is_aside
from ..guard import Guard
from ..user_line import program_lines
from .check_result import CheckResult, broken, held
from .function_mode import FunctionMode
from .loss_tape import tensors_in

TOGETHER, BESIDE, REACH = "rows_are_drawn_together", "columns_are_read_as_written", "draws_reach_what_was_written"
WHOLE: Final = "draws_reach_all_rows"
_TOGETHER = "the tensors that make a batch are read at the same rows"
_BESIDE = "columns that are written at the same rows are read at the same rows"
_REACH = "rows are drawn from all that were written"
_WHOLE = "the range from which rows are drawn is not the number that is drawn"
#: Rows of a tensor, and of a batch, below which nothing is said; reads and writes of one step, and functions, that are
#: followed. Our choice.
_FEWEST_ROWS, _FEWEST, _MOST_READS, _MOST_CALLS = 16, 8, 48, 4000
#: Columns that are read alike, beside which another one stands out.
_ALIKE: Final = 2
#: Share of the written rows below which all drawn ones lie, and logarithm of the probability of that in even draws,
#: from which on it is no chance. Our choice.
_SHARE, _NO_CHANCE = 0.2, -20.0
#: Share of the number of drawn rows that the last of them reaches at least, where that number is the range. Our choice.
_FULL: Final = 0.9


@dataclass(frozen=True, slots=True)
class _Rows:
    """One indexing of the first axis of a tensor.

    Args:
        column: Where the tensor lies in memory, and its shape.
        rows: Their numbers.
        is_slice: Whether they follow each other, as in `x[a:b]`.
        line: Where the program does so.
        number: Of a read; -1 for a write.
    """

    column: tuple[int, torch.Size]
    rows: torch.Tensor
    is_slice: bool
    line: str
    number: int = -1

    @property
    def words(self) -> str:
        """The first numbers."""
        if self.is_slice:
            return f"{int(self.rows[0])} to {int(self.rows[-1])}"
        return ", ".join(str(int(row)) for row in self.rows[:4]) + (", ..." if len(self.rows) > _ALIKE * 2 else "")


class DrawnRows(FunctionMode):
    """Notes which rows of tensors without gradients a program reads and writes in one step, and which reads meet.

    Two reads meet where one function is given what was made of both. It lies on torch's stack from the step's
    beginning to its first backward pass.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        super().__init__(guard)
        self._reads: list[_Rows] = []
        self._writes: list[_Rows] = []
        self._marks: dict[int, tuple[ref[torch.Tensor], int]] = {}
        self._meetings: set[int] = set()
        self._orders = 0
        self._calls = 0
        self._is_over = False

    def stop(self) -> None:
        """Note nothing more."""
        self._is_over = True
        self._marks.clear()

    # While the training runs ------------------------------------------------------------------------------------

    def before(self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Look at what a function returns, unless it is ours."""
        del function, args, options
        return None if self._is_over or is_aside() else True

    def after(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], noted: Any, result: Any
    ) -> None:
        """Note what the function reads or writes, and of which reads its result is made."""
        del noted
        self._calls += 1
        if self._calls > _MOST_CALLS:
            self.stop()
            return
        name = getattr(function, "__name__", "")
        if name == "__getitem__":
            mark = self._read(args[0], args[1], result)
        elif name == "index_select" and len(args) > _ALIKE and args[1] == 0:
            mark = self._read(args[0], args[2], result)
        else:
            mark = self._mark_of(args, options)
        if name == "__setitem__":
            self._write(args[0], args[1])
            result = args[0]
        if mark:
            for tensor in tensors_in(result):
                self._marks[id(tensor)] = (ref(tensor), mark)

    def _mark_of(self, args: Any, options: Any) -> int:
        """Return the reads that these arguments are made of, one bit each."""
        found = {self._known(tensor) for tensor in tensors_in((args, dict(options)))} if self._marks else {0}
        mark = 0
        for one in found:
            mark |= one
        if mark not in found:
            self._meetings.add(mark)
        return mark

    def _known(self, tensor: torch.Tensor) -> int:
        made, mark = self._marks.get(id(tensor), (None, 0))
        return mark if made is not None and made() is tensor else 0

    def _read(self, source: Any, key: Any, result: Any) -> int:
        """Note what is read; what gives the rows, such as a slice of an order, is no part of the batch itself."""
        found = _rows_of(source, key, len(self._reads)) if len(self._reads) < _MOST_READS else None
        if found is None or not isinstance(result, torch.Tensor) or len(result) != len(found.rows):
            return self._mark_of((source, key), {})
        self._reads.append(found)
        rows = key[0] if isinstance(key, tuple) else key
        self._orders |= self._mark_of(rows, {})
        return self._mark_of(source, {}) | 1 << found.number

    def _write(self, source: Any, key: Any) -> None:
        found = _rows_of(source, key, -1, is_write=True) if len(self._writes) < _MOST_READS else None
        if found is not None:
            self._writes.append(found)

    # After it ---------------------------------------------------------------------------------------------------

    def results(self) -> Iterator[CheckResult]:
        """Yield what the step tells: nothing of claims that it does not concern."""
        self._reads = [read for read in self._reads if not self._orders >> read.number & 1]
        with torch.no_grad():
            for result in (self._together(), self._beside(), self._reach(), self._whole()):
                if result is not None:
                    yield result

    def _together(self) -> CheckResult | None:
        """Compare rows that are drawn from one tensor with a slice of another one of as many rows.

        Tensors whose rows are alike may be two sets of samples, as those of two domains are.
        """
        by_slice = {read.column for read in self._reads if read.is_slice}
        drawn = {read.column for read in self._reads if not read.is_slice}
        both = None
        for one, other in combinations(self._reads, 2):
            if one.is_slice == other.is_slice:
                both = both or (one if self._is_pair(one, other) and torch.equal(one.rows, other.rows) else None)
                continue
            random, fixed = (other, one) if one.is_slice else (one, other)
            is_alike = any(fixed.column[1] == column[1] for column in drawn)
            if is_alike or random.column in by_slice or not self._is_pair(random, fixed):
                continue
            words = (
                f"a tensor {tuple(random.column[1])} was read at the drawn rows {random.words} ({random.line}), and "
                f"one {tuple(fixed.column[1])} at the rows {fixed.words} ({fixed.line}): row by row, the batch joins "
                "what does not belong together"
            )
            return broken(TOGETHER, _TOGETHER, words, rows=float(len(fixed.rows)))
        return held(TOGETHER, _TOGETHER) if both is not None else None

    def _is_pair(self, one: _Rows, other: _Rows) -> bool:
        """Return whether two reads take as many rows of two tensors that are as long, and meet."""
        is_as_long = one.column[1][0] == other.column[1][0] and len(one.rows) == len(other.rows)
        return is_as_long and one.column[0] != other.column[0] and self._meet(one, other)

    def _meet(self, one: _Rows, other: _Rows) -> bool:
        pair = 1 << one.number | 1 << other.number
        return any(mark & pair == pair for mark in self._meetings)

    def _beside(self) -> CheckResult | None:
        """Look for one column of a store that is read some rows beside all others, which are read alike.

        A step in time leads to the next row of the same environment: rows that are written together are of as many
        environments, and a distance that is no multiple of their number leads to another one.
        """
        for written in self._stores():
            width = len(written[0].rows)
            columns = {write.column for write in written}
            reads = [read for read in self._reads if read.column in columns and not read.is_slice]
            if width < _ALIKE or len({read.column for read in reads}) <= _ALIKE:
                continue
            result = self._odd(reads, width)
            if result is not None:
                return result
        return None

    def _odd(self, reads: list[_Rows], width: int) -> CheckResult | None:
        keys = [tuple(read.rows.tolist()) for read in reads]
        columns = {key: {read.column for read, own in zip(reads, keys, strict=True) if own == key} for key in keys}
        usual = max(columns, key=lambda key: len(columns[key]))
        others = [(read, key) for read, key in zip(reads, keys, strict=True) if read.column not in columns[usual]]
        if len(columns[usual]) < _ALIKE:
            return None
        if not others:
            return held(BESIDE, _BESIDE, columns=float(len(columns[usual])))
        if len(others) != 1 or len(columns) != len({usual}) + 1 or len(others[0][1]) != len(usual):
            return None
        odd, key = others[0]
        length = odd.column[1][0]
        distances = {(mine - theirs) % length for mine, theirs in zip(key, usual, strict=True)}
        peer = next(read for read, own in zip(reads, keys, strict=True) if own == usual)
        if len(distances) != 1 or not self._meet(odd, peer):
            return None
        distance = min(distances)
        distance = distance if distance <= length // 2 else distance - length
        if distance % width == 0:
            return None
        words = (
            f"{len(columns[usual])} of the tensors that are written at the same {width} rows at a time are read at the "
            f"drawn rows {peer.words} ({peer.line}), and one {tuple(odd.column[1])} at {odd.words} ({odd.line}), "
            f"{distance:+d} beside: that is a row of another sample"
        )
        return broken(BESIDE, _BESIDE, words, distance=float(distance))

    def _stores(self) -> Iterator[list[_Rows]]:
        """Yield the writes of a step that go to the same rows of several tensors of one length."""
        found: dict[tuple[int, tuple[int, ...]], list[_Rows]] = {}
        for write in self._writes:
            found.setdefault((write.column[1][0], tuple(write.rows.tolist())), []).append(write)
        yield from (writes for writes in found.values() if len({write.column for write in writes}) > _ALIKE)

    def _reach(self) -> CheckResult | None:
        """Compare the rows that a store is written at with those that are drawn from it."""
        newest = Counter[tuple[int, torch.Size]]()
        for write in self._writes:
            newest[write.column] = max(newest[write.column], int(write.rows.max()))
        told = None
        for read in self._reads:
            written, last, count = newest[read.column], int(read.rows.max()), len(read.rows)
            if read.is_slice or written < _FEWEST_ROWS:
                continue
            if last < _SHARE * written and count * log((last + 1) / written) < _NO_CHANCE:
                words = (
                    f"while row {written} of a tensor {tuple(read.column[1])} is being written, all {count} rows that "
                    f"are drawn from it ({read.line}) are among the first {last + 1}"
                )
                return broken(REACH, _REACH, words, last=float(last), written=float(written))
            told = told or held(REACH, _REACH)
        return told

    def _whole(self) -> CheckResult | None:
        """Look for rows that are drawn below their own number, as by `randint(0, batch, (batch,))`."""
        written = {write.column for write in self._writes}
        told = None
        for read in self._reads:
            length, last, count = read.column[1][0], int(read.rows.max()), len(read.rows)
            if read.is_slice or read.column in written or count >= length:
                continue
            if _FULL * count - 1 <= last < count and count * log((last + 1) / length) < _NO_CHANCE:
                words = (
                    f"all {count} rows that are drawn from a tensor {tuple(read.column[1])} ({read.line}) are among "
                    f"its first {last + 1}: the range of the draw is the number that is drawn"
                )
                return broken(WHOLE, _WHOLE, words, last=float(last), rows=float(length))
            told = told or held(WHOLE, _WHOLE)
        return told


def _rows_of(source: Any, key: Any, number: int, *, is_write: bool = False) -> _Rows | None:
    """Return the rows that a key takes of a tensor's first axis; None where it takes no list or slice of some."""
    first = key[0] if isinstance(key, tuple) and key else key
    if not isinstance(source, torch.Tensor) or source.requires_grad or not source.dim():
        return None
    length = len(source)
    if length < _FEWEST_ROWS or source.layout is not torch.strided:
        return None
    with checking(), torch.no_grad():
        rows = _numbers(first, length, is_write=is_write)
        if rows is None or not len(rows):
            return None
        is_slice = bool((rows.diff() == 1).all())
    line = next((f"{Path(name).name}:{line}" for name, line in program_lines()), "")
    return _Rows((source.data_ptr(), source.shape), rows, is_slice, line, number)


def _numbers(key: Any, length: int, *, is_write: bool) -> torch.Tensor | None:
    fewest = 1 if is_write else _FEWEST
    if isinstance(key, slice):
        numbers = range(*key.indices(length))
        return (
            torch.arange(length, device="cpu")[key]
            if key.step in (None, 1) and fewest <= len(numbers) < length
            else None
        )
    if isinstance(key, int) and not isinstance(key, bool):
        return torch.tensor([key % length], device="cpu") if is_write and -length <= key < length else None
    if isinstance(key, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in key):
        key = torch.tensor(key, device="cpu")
    if not isinstance(key, torch.Tensor):
        try:
            key = torch.as_tensor(key, device="cpu") if hasattr(key, "__array_interface__") else None
        except (TypeError, ValueError):
            return None
    if key is None or key.dim() != 1 or key.dtype not in (torch.int64, torch.int32) or len(key) < fewest:
        return None
    return key.detach().to("cpu", torch.int64) % length
