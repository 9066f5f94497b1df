"""The first bad operation: which one turned finite values into NaN or infinity, in which line, from what.

A tracer of the framework shows every operation of a watched step with its inputs and outputs. The first whose inputs
are all finite and whose output is not is the origin; what comes after it only passes it on. Minus infinity is how masks
are written, so an operation that only fills is never suspected, and another that makes it is named once something
worse follows from it: log(0) is, when the loss becomes infinite.

Once the weights themselves are bad, every pass is, and says nothing of the cause: after a bad operation nothing is
looked at until a pass begins with weights that are finite.
"""

import linecache
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..storage.records import Json
from .kernels import STATISTICS, measure
from .recording.first_step import finite_or_none
from .recording.recorder import Recorder
from .tensor_access import Place, Unsupported
from .user_line import user_line

__all__ = ["NanTrace"]

Phase = Literal["forward", "loss", "backward"]

_NANS, _POS, _NEG = (STATISTICS.index(name) for name in ("nans", "pos_infs", "neg_infs"))
_SHOWN: Final = ("min", "max", "mean", "nans", "pos_infs", "neg_infs", "size")
#: Operations that write given values: -inf from them is intended.
_FILLS: Final = (
    "fill",
    "full",
    "where",
    "scalar",
    "triu",
    "tril",
    "pad",
    "clone",
    "copy",
    "constant",
    "empty",
    "zeros",
)


class NanTrace:
    """Looks at operations, and records the first bad one of a pass as the event `first_bad_operation`.

    Args:
        recorder: Gets the event.
        place: Where the values of one of the framework's tensors lie, as `Access.place`.
        weights: The model's weights as such tensors, as they are now.
        foreign: Folders whose code is not the user's: the framework's own.
    """

    def __init__(
        self,
        recorder: Recorder,
        place: Callable[[Any], tuple[Place, object]],
        weights: Callable[[], Iterable[object]],
        foreign: Sequence[str],
    ) -> None:
        self._recorder, self._place, self._weights = recorder, place, weights
        self._foreign = tuple(foreign)
        self.phase: Phase = "forward"
        self.sites: list[str] = []
        self._stamp = -1
        self._is_found = False
        self._suspect: dict[str, Json] | None = None

    @property
    def is_looking(self) -> bool:
        """Whether the pass in progress has shown nothing bad so far, and began with weights that could be good."""
        stamp = self._recorder.current.stamp
        if stamp != self._stamp:
            self._stamp, self._suspect = stamp, None
            self._is_found = self._is_found and not self._are_weights_finite()
        return not self._is_found

    def operation(
        self,
        name: str,
        inputs: Iterable[object],
        outputs: Iterable[object],
        *,
        behind: Callable[[], dict[str, Json]] = dict,
    ) -> None:
        """Look at one operation; inputs that it has overwritten are seen as they are now.

        Args:
            behind: Of an operation of the backward pass, the `node` that it belongs to, and the `site`, `file` and
                `line` of the forward pass that made the node, as far as they are known.
        """
        if not self.is_looking:
            return
        output_rows = [row for x in outputs if (row := self._statistics(x)) is not None]
        if not any(row[_NANS] or row[_POS] or row[_NEG] for row in output_rows):
            return
        input_rows = [row for x in inputs if (row := self._statistics(x)) is not None]
        is_worse = any(row[_NANS] or row[_POS] for row in output_rows)
        was_bad = any(row[_NANS] or row[_POS] for row in input_rows)
        if not is_worse:
            if self._suspect is None and not was_bad and not any(word in name for word in _FILLS):
                self._suspect = self._described(name, input_rows, output_rows, behind)
            return
        self._is_found = True
        if was_bad:
            described = self._described(name, input_rows, output_rows, behind)
            self._record({**described, "source": "its inputs were not finite already"})
        elif self._suspect is not None and any(row[_NEG] for row in input_rows):
            self._record(self._suspect)
        else:
            self._record(self._described(name, input_rows, output_rows, behind))

    def loss_is_bad(self, operations: Sequence[str]) -> None:
        """Record that the loss is not finite though the model's output was; these operations lie between, nearest
        last."""
        if not self.is_looking:
            return
        self._is_found = True
        self.phase = "loss"
        self._record(
            self._suspect or {**self._described(", ".join(operations[-8:]), [], [], dict), "source": "one of these"}
        )

    def _are_weights_finite(self) -> bool:
        rows = (row for weight in self._weights() if (row := self._statistics(weight)) is not None)
        return not any(row[_NANS] or row[_POS] or row[_NEG] for row in rows)

    def _record(self, data: dict[str, Json]) -> None:
        fields = dict(data)
        site = str(fields.pop("site", self.sites[-1] if self.sites else ""))
        file, line = fields["file"], fields["line"]
        fields["code"] = (
            linecache.getline(file, line).strip() if isinstance(file, str) and isinstance(line, int) else ""
        )
        self._recorder.event("first_bad_operation", site, **fields)

    def _statistics(self, tensor: object) -> NDArray[np.float64] | None:
        """Return the statistics of a tensor; None of an unsupported value."""
        try:
            (address, size, code), owner = self._place(tensor)
        except Unsupported:
            return None
        row = np.empty(len(STATISTICS))
        measure(address, size, code, row.ctypes.data)
        del owner
        return row

    def _described(
        self,
        name: str,
        input_rows: Sequence[NDArray[np.float64]],
        output_rows: Sequence[NDArray[np.float64]],
        behind: Callable[[], dict[str, Json]],
    ) -> dict[str, Json]:
        file, line = user_line(*self._foreign)
        inputs: list[Json] = [_shown(row) for row in input_rows[:4]]
        data: dict[str, Json] = {"operation": name, "phase": self.phase, "file": file, "line": line, "inputs": inputs}
        data["output"] = _shown(output_rows[0]) if output_rows else None
        return {**data, **behind()}


def _shown(row: NDArray[np.float64]) -> Json:
    return {name: finite_or_none(float(row[STATISTICS.index(name)])) for name in _SHOWN}
