"""Do the samples that a data set holds stay as they are, or does what is done to a batch change them in place?"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import ref

import numpy as np
import torch
from torch.utils.data import Dataset

from ....storage.percent import percent
from ...checks.check_result import CheckResult, broken, held
from .process_objects import objects_of

CHECK: Final = "stored_samples_stay"
_CLAIM = "the samples that a data set holds are not changed in place"
#: Samples of a data set that are looked at, elements that they have at least, and that are copied of one data set.
_SAMPLES, _FEWEST, _MOST = 64, 16, 1 << 18
#: Data sets that are looked at.
_MOST_SETS: Final = 16
#: Share of the samples that must have changed, and share of a sample's values that must not have: a sample of which all
#: values are new was written anew on purpose, as in a buffer. Our choice.
_CHANGED, _KEPT = 0.05, 0.1
#: Values that a sample must have had: of ones among zeros, another sample may be written there in full.
_DIFFERENT: Final = 8


@dataclass(slots=True)
class _Held:
    """Some samples of one data set, and copies of what they were.

    Args:
        name: Of the data set's class and attribute.
        owner: The data set.
        numbers: Of the samples.
    """

    name: str
    owner: ref[Any]
    attribute: str
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
        results = [_compared(one) for one in self.held if one.name not in self.told]
        for name, result in results:
            if result is not None and result.outcome == "broken":
                self.told.add(name)
                yield result
        if results and not self.told:
            yield held(CHECK, _CLAIM, data_sets=float(len(results)))


def _samples_of(data: Any) -> Iterator[_Held]:
    """Yield samples of every array, or list of arrays, of real numbers that a data set keeps for as many samples."""
    for attribute, value in list(vars(data).items()):
        several = value if isinstance(value, tuple) and 0 < len(value) <= _MOST_SETS else (value,)
        for at, one in enumerate(several):
            count = len(one) if isinstance(one, list | torch.Tensor | np.ndarray) and np.ndim(one) else 0
            numbers = np.unique(np.linspace(0, count - 1, _SAMPLES).astype(int)).tolist() if count >= _SAMPLES else []
            views = [_view(one, number) for number in numbers]
            if not views or any(view is None for view in views) or sum(view.numel() for view in views) > _MOST:
                continue
            place = attribute if several[0] is value else f"{attribute}[{at}]"
            copies, addresses = [view.clone() for view in views], [view.data_ptr() for view in views]
            yield _Held(f"{type(data).__name__}.{place}", ref(data), place, numbers, copies, addresses)


def _view(stored: Any, number: int) -> Any:
    """Return a sample as a tensor that shares its memory; None if it is none of enough real numbers on the host."""
    value = stored[number] if len(stored) > number else None
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.dtype.itemsize in (2, 4, 8):
        value = torch.from_numpy(value) if value.flags.writeable and all(step >= 0 for step in value.strides) else None
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.is_cpu:
        return None
    return value.detach() if value.layout is torch.strided and value.numel() >= _FEWEST else None


def _compared(one: _Held) -> tuple[str, CheckResult | None]:
    """Return what has become of the samples: none where the data set is gone, or they lie elsewhere."""
    data = one.owner()
    name, bracket, at = one.attribute.partition("[")
    stored = None if data is None else getattr(data, name, None)
    stored = stored[int(at[:-1])] if bracket and isinstance(stored, tuple) else stored
    changed, shares = 0, list[float]()
    for number, copy, address in zip(one.numbers, one.copies, one.addresses, strict=True):
        view = _view(stored, number) if isinstance(stored, list | torch.Tensor | np.ndarray) else None
        if view is None or view.shape != copy.shape or view.data_ptr() != address:
            return one.name, None
        is_other = (view != copy) & ~(view.isnan() & copy.isnan())
        share = float(is_other.double().mean())
        if 0.0 < share <= 1.0 - _KEPT and copy.unique().numel() >= _DIFFERENT:
            changed += 1
            shares.append(share)
    if changed <= _CHANGED * len(one.numbers):
        return one.name, held(CHECK, _CLAIM, subject=one.name)
    words = (
        f"{changed} of {len(one.numbers)} samples of {one.name} have changed in place since the first look, "
        f"{percent(sum(shares) / len(shares))} of their values"
    )
    return one.name, broken(CHECK, _CLAIM, words, subject=one.name, changed=float(changed))
