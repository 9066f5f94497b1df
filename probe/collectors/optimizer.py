"""Optimizer state: momenta and second moments, whatever slots the optimizer keeps."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..kernels import STATISTICS, Arrays, together
from .collector import Rows, Step, collector


@collector("optimizer", at="after_step", columns=STATISTICS)
class Optimizer:
    """Statistics of every slot after the step, as subject `optimizer/<slot>`; counters are left out.

    Of a slot that is a list or a mapping each tensor is one, `optimizer/<slot>[key]`, up to 8. Of a list that grows, or
    is longer, the newest entry alone is: `optimizer/<slot>[-1]`. L-BFGS keeps one state for all parameters, which
    stands at the first of them: `d`, `H_diag`, `prev_flat_grad`, and the newest of its histories, `old_dirs[-1]`,
    `old_stps[-1]`, `ro[-1]` and `al[-1]`.
    """

    def __init__(self) -> None:
        self._slots: Mapping[str, Arrays] = {}
        self._all: Arrays | None = None
        self._parts: list[tuple[str, slice, NDArray[np.bool_]]] = []

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of each slot; of slots that lie where they lay, all are measured at once."""
        slots = step.view.slots()
        if slots is not self._slots or not slots:
            self._slots, self._all = slots, None
            return {
                f"optimizer/{slot}": Rows(step.statistics(arrays), arrays.present) for slot, arrays in slots.items()
            }
        if self._all is None:
            self._all, self._parts = together(slots.values()), []
            for slot, arrays in slots.items():
                begin = self._parts[-1][1].stop if self._parts else 0
                self._parts.append((f"optimizer/{slot}", slice(begin, begin + arrays.sizes.size), arrays.present))
        rows = step.statistics(self._all)
        return {subject: Rows(rows[part], present) for subject, part, present in self._parts}
