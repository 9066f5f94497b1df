"""Compares the order of collectives over the ranks of a group: the first call in which they differ, and who differs.

Ranks pair their collectives by number alone. So the calls with the same number must agree in operation, shape, dtype,
reduction and root; and where they do by chance, in the line that each rank usually calls at this point.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ...storage.last_words import CollectiveCall
from ...storage.transfers import TRANSFERS
from .activity import place

__all__ = ["BY_TORCH", "Difference", "DifferenceKind", "Sequences", "first_difference"]

#: `mismatch`: another collective in the place of the right one.
DifferenceKind = Literal["shape", "dtype", "argument", "skipped", "extra", "reordered", "mismatch", "order"]
#: The calls of each rank of a group, by number.
Sequences = Mapping[int, Mapping[int, CollectiveCall]]

#: Operations whose tensors have one shape on all ranks.
_EQUAL_SHAPES: Final = frozenset(
    {"all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_single", "broadcast", "reduce", "gather"}
    | {"reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"}
)
#: The file of a call that torch makes itself, as DDP does of its gradients and buffers.
BY_TORCH: Final = "<torch>"
_Line = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first call in which ranks of a group differ.

    Args:
        number: Of the call.
        ranks: Who calls something else than is due; several if it cannot be decided.
        expected, actual: A call that is due, and what one of `ranks` calls.
        is_decided: Whether it is clear which side is wrong.
    """

    kind: DifferenceKind
    group: str
    number: int
    ranks: tuple[int, ...]
    expected: CollectiveCall
    actual: CollectiveCall
    is_decided: bool = True

    @property
    def words(self) -> str:
        """What the ranks call, without their names: a sentence that follows `rank 1`."""
        due, ours = _at_line(self.expected), _at_line(self.actual)
        number = f"in call {self.number} of {self.group}"
        if self.kind == "shape":
            return f"calls {ours} with {_shapes(self.actual)}, the others with {_shapes(self.expected)}, {number}"
        if self.kind == "dtype":
            return f"calls {ours} with {self.actual.dtype}, the others with {self.expected.dtype}, {number}"
        if self.kind == "argument":
            theirs = f"{self.expected.detail or 'the defaults'}"
            return f"calls {ours} with {self.actual.detail or 'the defaults'}, the others with {theirs}, {number}"
        return {
            "skipped": f"has skipped {due} and is at {ours}, {number}",
            "extra": f"calls {ours}, which the others do not call, before {due}, {number}",
            "reordered": f"calls {ours} before {due}, the others after it, {number}",
            "mismatch": f"calls {ours}, which no other rank calls, where {due} is due, {number}",
            "order": f"calls {ours} where {due} is due, {number}",
        }[self.kind]


def first_difference(group: str, sequences: Sequences, *, is_hard: bool) -> Difference | None:
    """Return the first difference among the calls that were kept; None if the ranks agree.

    Args:
        sequences: Of two ranks or more.
        is_hard: Whether operations or tensors must differ; else it is enough that a rank calls from another line than
            it usually does at this point. A hard difference is told from the first line that is unusual before it:
            calls that only seem to agree lead there.
    """
    counts = Counter(number for calls in sequences.values() for number in calls)
    first: tuple[int, dict[int, CollectiveCall]] | None = None
    for number in sorted(number for number, count in counts.items() if count > 1):
        calls = {rank: own[number] for rank, own in sequences.items() if number in own}
        if len({_signature(call) for call in calls.values()}) > 1:
            if first is not None:
                return _judged(group, *first, sequences, is_hard=False)
            return _judged(group, number, calls, sequences, is_hard=True)
        if first is None and len({_line(call) for call in calls.values()}) > 1:
            usual = [_is_usual(sequences[rank], number) for rank in calls]
            if False in usual and True in usual:
                first = number, calls
    return None if first is None or is_hard else _judged(group, *first, sequences, is_hard=False)


def _judged(
    group: str, number: int, calls: Mapping[int, CollectiveCall], sequences: Sequences, *, is_hard: bool
) -> Difference:
    wrong, is_decided = _wrong_ranks(number, calls, sequences, is_hard=is_hard)
    right = [rank for rank in calls if rank not in wrong] or list(calls)[:1]
    actual = calls[next(rank for rank in wrong if rank not in right[:1]) if not is_decided else wrong[0]]
    expected = calls[right[0]]
    own = sequences[next(rank for rank, call in calls.items() if call is actual)]
    kind = _kind(number, expected, actual, own, [sequences[rank] for rank in right])
    return Difference(kind, group, number, tuple(wrong), expected, actual, is_decided)


def _wrong_ranks(
    number: int, calls: Mapping[int, CollectiveCall], sequences: Sequences, *, is_hard: bool
) -> tuple[list[int], bool]:
    """Return the ranks that differ from what is due, and whether that is clear."""
    keys = {rank: (_signature(call) if is_hard else None, _line(call)) for rank, call in calls.items()}
    (common, count), *rest = Counter(keys.values()).most_common()
    if count > sum(other for _, other in rest):
        return [rank for rank in calls if keys[rank] != common], True
    is_one_line = len({_line(call) for call in calls.values()}) == 1
    checks = (_has_usual_tensor,) if is_one_line else (_is_usual, _has_usual_tensor)
    verdicts = [{rank: check(sequences[rank], number) for rank in calls} for check in checks]
    for found in verdicts:
        unusual = [rank for rank in calls if found[rank] is False]
        if unusual and len(unusual) < len(calls):
            return unusual, True
    for found in verdicts:
        unknown = [rank for rank in calls if found[rank] is None]
        if True in found.values() and unknown:
            return unknown, True
    return list(calls), False


def _kind(
    number: int,
    expected: CollectiveCall,
    actual: CollectiveCall,
    own: Mapping[int, CollectiveCall],
    others: Sequence[Mapping[int, CollectiveCall]],
) -> DifferenceKind:
    if _line(expected) == _line(actual):
        if expected.dtype != actual.dtype:
            return "dtype"
        return "argument" if expected.detail != actual.detail else "shape"
    following = own.get(number + 1)
    continues = following is not None and _line(following) == _line(expected)
    if not _is_known(actual, others):
        return "extra" if continues else "mismatch"
    if continues:
        return "reordered"
    lines = _following_lines(expected, [own, *others])
    return "skipped" if _line(actual) in lines else "order"


def _is_known(call: CollectiveCall, others: Sequence[Mapping[int, CollectiveCall]]) -> bool:
    """Return whether one of the others calls from this line, too."""
    return any(_line(other) == _line(call) for calls in others for other in calls.values())


def _following_lines(call: CollectiveCall, sequences: Sequence[Mapping[int, CollectiveCall]]) -> set[_Line]:
    """Return the lines that were called next after the line of this call."""
    return {
        _line(calls[number + 1])
        for calls in sequences
        for number, other in calls.items()
        if _line(other) == _line(call) and number + 1 in calls
    }


def _is_usual(calls: Mapping[int, CollectiveCall], number: int) -> bool | None:
    """Return whether the rank has called from this line after the line before, earlier; None if that is unknown."""
    before = calls.get(number - 1)
    if before is None:
        return None
    earlier = [
        _line(calls[other])
        for other in calls
        if other < number and other - 1 in calls and _line(calls[other - 1]) == _line(before)
    ]
    return _line(calls[number]) in earlier if earlier else None


def _has_usual_tensor(calls: Mapping[int, CollectiveCall], number: int) -> bool | None:
    """Return whether the rank's earlier calls from this line had the same tensors; None if there were none."""
    call = calls[number]
    earlier = [_signature(other) for at, other in calls.items() if at < number and _line(other) == _line(call)]
    return _signature(call) in earlier if earlier else None


def _signature(call: CollectiveCall) -> tuple[object, ...]:
    """Return what all ranks must agree on."""
    if call.operation in TRANSFERS:
        return ("transfer", call.dtype, call.sizes)
    return (call.operation, call.detail, call.dtype, call.sizes if call.operation in _EQUAL_SHAPES else ())


def _line(call: CollectiveCall) -> _Line:
    if call.operation in TRANSFERS:
        return ("transfer", "", 0)  # the two ends are two lines
    return (call.operation, call.file, call.line)


def _at_line(call: CollectiveCall) -> str:
    """Return the call as people name it: `all_reduce at train.py:12`, without a line where none is known."""
    if call.file == BY_TORCH:
        return f"the {call.operation} that torch calls itself (as DDP does)"
    return f"{call.operation} at {place(call.file, call.line)}" if call.file else call.operation


def _shapes(call: CollectiveCall) -> str:
    return ", ".join("x".join(map(str, shape)) or "a scalar" for shape in call.sizes[:3]) or "no tensor"
