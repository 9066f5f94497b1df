"""Do the samples that a data set holds stay as they are, or does what is done to a batch change them in place?"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import ref

import numpy as np
import torch
from torch.utils.data import Dataset

from ....garbage import objects_of
from ....storage.percent import percent
from ...checks.check_result import CheckResult, broken, held

CHECK: Final = "stored_samples_stay"
_CLAIM = "the samples that a data set holds are not changed in place"
#: Samples of a data set that are looked at, elements that they have at least, and that are copied of one data set.
_SAMPLES, _FEWEST, _MOST = 64, 8, 1 << 18
#: Data sets that are looked at.
_MOST_SETS: Final = 16
#: Share of the samples that must have changed, and share of a sample's values that must not have: a sample of which all
#: values are new was written anew on purpose, as in a buffer. Our choice.
_CHANGED, _KEPT = 0.05, 0.1
#: Values that a sample must have had: of ones among zeros, another sample may be written there in full.
_DIFFERENT: Final = 8
#: Types of NumPy's numbers that are looked at.
_TYPES: Final = tuple(map(np.dtype, ("f2", "f4", "f8", "i2", "i4", "i8", "u1")))


@dataclass(slots=True)
class _Held:
    """Some samples of one data set, and copies of what they were.

    Args:
        owner: The data set.
        place: Its attribute, and the number in a tuple there.
        numbers: Of the samples.
    """

    owner: ref[Any]
    place: str
    numbers: list[int]
    copies: list[torch.Tensor]
    addresses: list[int]


@dataclass(slots=True)
class StoredSamples:
    """Compares samples of the data sets of the process with what they were at the first look."""

    held: list[_Held] | None = None
    told: set[str] = field(default_factory=set)

    def look(self) -> Iterator[CheckResult]:
        """Keep copies at the first look; at later ones, yield what has become of the samples."""
        if self.held is None:
            self.held = [one for data in objects_of(Dataset)[:_MOST_SETS] for one in _samples_of(data)]
            return
        results = [result for one in self.held if (result := _compared(one)) is not None]
        found = [result for result in results if result.outcome == "broken" and result.subject not in self.told]
        self.told.update(result.subject for result in found)
        yield from found
        if results and not self.told:
            yield held(CHECK, _CLAIM, data_sets=float(len(results)))


def _samples_of(data: Any) -> Iterator[_Held]:
    """Yield samples of every array, or list of arrays, of numbers that a data set keeps for as many samples."""
    for place, stored in _stored_in(data):
        count = len(stored)
        numbers = np.unique(np.linspace(0, count - 1, _SAMPLES).astype(int)).tolist() if count >= _SAMPLES else []
        views = [_view(stored, number) for number in numbers]
        if not views or any(view is None for view in views) or sum(view.numel() for view in views) > _MOST:
            continue
        yield _Held(ref(data), place, numbers, [view.clone() for view in views], [view.data_ptr() for view in views])


def _stored_in(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield the lists and arrays that a data set keeps, those of a tuple one by one, and where."""
    for attribute, value in list(vars(data).items()):
        named = [(attribute, value)]
        if isinstance(value, tuple) and len(value) <= _MOST_SETS:
            named = [(f"{attribute}[{at}]", one) for at, one in enumerate(value)]
        for place, one in named:
            if isinstance(one, list) or (isinstance(one, torch.Tensor | np.ndarray) and one.ndim):
                yield place, one


def _view(stored: Any, number: int) -> Any:
    """Return a sample as a tensor that shares its memory; None if it is none of enough numbers on the host.

    Of a sample that is a tuple, as one with its label, the first part is looked at.
    """
    value = stored[number] if len(stored) > number else None
    value = value[0] if isinstance(value, tuple) and value else value
    if isinstance(value, np.ndarray) and value.dtype in _TYPES:
        value = torch.from_numpy(value) if value.flags.writeable and all(step >= 0 for step in value.strides) else None
    if not isinstance(value, torch.Tensor) or value.dtype is torch.bool or value.is_complex() or not value.is_cpu:
        return None
    return value.detach() if value.layout is torch.strided and value.numel() >= _FEWEST else None


def _compared(one: _Held) -> CheckResult | None:
    """Return what has become of the samples: none where the data set is gone, or they lie elsewhere."""
    data = one.owner()
    stored = None if data is None else dict(_stored_in(data)).get(one.place)
    shares = list[float]()
    for number, copy, address in zip(one.numbers, one.copies, one.addresses, strict=True):
        view = None if stored is None else _view(stored, number)
        if view is None or view.shape != copy.shape or view.data_ptr() != address:
            return None
        is_other = (view != copy) & ~(view.isnan() & copy.isnan())
        share = float(is_other.double().mean())
        if 0.0 < share <= 1.0 - _KEPT and copy.unique().numel() >= _DIFFERENT:
            shares.append(share)
    name = f"{type(data).__name__}.{one.place}"
    if len(shares) <= _CHANGED * len(one.numbers):
        return held(CHECK, _CLAIM, subject=name)
    words = (
        f"{len(shares)} of {len(one.numbers)} samples of {name} have changed in place since the first look, "
        f"{percent(sum(shares) / len(shares))} of their values"
    )
    return broken(CHECK, _CLAIM, words, subject=name, changed=float(len(shares)))
