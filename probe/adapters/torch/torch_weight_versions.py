"""Whether the forward uses the weights that the optimizer then steps, or those of an earlier step."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...recording.recorder import Recorder

_Numbers = NDArray[np.float64]
#: Steps in a row that are looked at once the forward used other weights, and versions that are kept meanwhile.
_LOOKS: Final = 4
#: Steps in which the same old version must have been used.
_SEEN: Final = 2
_MOST_SITES: Final = 16


class WeightVersions:
    """Compares, by checksums, the weights at the first forward of a step with those before the optimizer's step.

    At the steps that are due they are compared once. Where they differ, the next steps are looked at too: a forward
    that uses quantized or averaged weights is meant so, one whose weights are bit for bit those of an earlier step is
    behind.

    Args:
        checksums: Returns `(n,)` checksums of the weights on the host, NaN for others.
    """

    def __init__(self, recorder: Recorder, checksums: Callable[[], _Numbers]) -> None:
        self._recorder, self._checksums = recorder, checksums
        self._used: _Numbers | None = None
        self._kept: list[_Numbers] = []
        self._looks = self._seen = 0
        self._is_told = False

    @property
    def is_looking(self) -> bool:
        """Whether the next step must be looked at although it is not due."""
        return self._looks > 0

    def forward_begins(self) -> None:
        """Note what the first forward of the step uses."""
        if self._used is None and not self._is_told:
            self._used = self._checksums()

    def before_step(self, names: tuple[str, ...], checksums: Callable[[], _Numbers]) -> None:
        """Compare with what the optimizer steps.

        Args:
            checksums: As that of the class, of the weights now.
        """
        used, self._used = self._used, None
        if used is None or self._is_told:
            return
        held = checksums()
        if used.shape != held.shape:
            return
        differs = ~np.isnan(used) & ~np.isnan(held) & (used != held)
        if not differs.any():
            self._looks, self._seen, self._kept = 0, 0, []
            return
        behind = next((back for back, old in enumerate(self._kept, 1) if self._is_old(used, old, differs)), 0)
        self._seen += behind > 0
        self._looks = self._looks - 1 if self._looks else _LOOKS
        self._kept = [held, *self._kept][:_LOOKS]
        if self._seen >= _SEEN:
            self._is_told, self._looks = True, 0
            sites = [names[row] for row in np.flatnonzero(differs).tolist()][:_MOST_SITES]
            self._recorder.event(
                "weights_stale",
                "",
                at=self._recorder.current.step,
                sites=[*sites],
                steps_behind=behind,
                steps=self._seen,
            )

    @staticmethod
    def _is_old(used: _Numbers, old: _Numbers, differs: NDArray[np.bool_]) -> bool:
        return old.shape == used.shape and bool((used[differs] == old[differs]).all())
