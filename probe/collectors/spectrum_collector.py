"""Spectra: the largest singular value and the stable rank of every weight matrix."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..device_results import DeviceResults, HostFuture
from .collector import Collected, SiteRows, Step, collector

#: Iterations at the first due step, from a random vector; afterwards one a due step follows a matrix that moves slowly.
_FIRST = 8
_Matrix = NDArray[Any]  # float32 or float64
_NAME = "weight/spectrum"
_COLUMNS = ("largest_singular_value", "stable_rank")


@collector(_NAME, at="after_step", columns=_COLUMNS, is_optional=True)
class Spectrum:
    """Largest singular value and stable rank (squared Frobenius norm over its square) of weights of two or more axes.

    The first axis stands against all others. One power iteration a due step from the vector of the last one, so that
    the value grows towards the true one from below and follows it; costs two products with the matrix. Off unless the
    configuration names it.

    Reference:
        Miyato et al. 2018, arXiv:1802.05957, section 2.1; Rudelson and Vershynin 2007 (stable rank).
    """

    def __init__(self) -> None:
        self._vectors: dict[str, _Matrix] = {}
        self._away: dict[str, Any] = {}  # the framework's, on a device

    def __call__(self, step: Step) -> Collected:
        """Return two numbers of every matrix."""
        if step.device_results is not None and step.may_be_late(step.weights()):
            names = step.view.names
            away = {names[row]: tensor for row, tensor in step.weights().remote.items() if tensor.ndim > 1}
            return {
                _NAME: SiteRows(
                    _COLUMNS, {site: self._ask(site, one, step.device_results) for site, one in away.items()}
                )
            }
        found = {
            site: self._of(site, array.reshape(array.shape[0], -1))
            for site, array in step.view.arrays("weight")
            if array.ndim > 1 and array.size
        }
        return {_NAME: SiteRows(_COLUMNS, found)}

    def _ask(self, site: str, tensor: Any, device_results: DeviceResults) -> HostFuture:
        """Request the two numbers of a matrix on a device."""
        matrix = tensor.reshape(tensor.shape[0], -1)
        assert device_results.device is not None, "tensors are remote only where there is a device"
        vector, times = self._away.get(site), 1
        if vector is None or vector.shape[0] != matrix.shape[1]:
            vector, times = np.random.default_rng(0).standard_normal(matrix.shape[1]), _FIRST
        numbers, self._away[site] = device_results.device.iterate(matrix, vector, times)
        fetched = device_results.fetch(numbers)
        return device_results.make(_NAME, lambda: _numbers(*fetched.array.tolist()))

    def _of(self, site: str, matrix: _Matrix) -> tuple[float, float]:
        wide = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float32)
        vector = self._vectors.get(site)
        times = 1
        if vector is None or vector.shape != (wide.shape[1],) or not np.isfinite(vector).all():
            vector = np.asarray(np.random.default_rng(0).standard_normal(wide.shape[1]), wide.dtype)
            times = _FIRST
        with np.errstate(invalid="ignore", over="ignore"):
            largest, vector = power_iteration(wide, vector, times)
            square = float(np.square(wide, dtype=np.float64).sum())
        self._vectors[site] = vector
        return _numbers(largest, square)


def _numbers(largest: float, square: float) -> tuple[float, float]:
    return largest, square / largest**2 if largest > 0.0 else math.nan


def power_iteration(matrix: _Matrix, vector: _Matrix, times: int) -> tuple[float, _Matrix]:
    """Estimate the largest singular value, never above it but for rounding; return also the vector to go on from.

    Args:
        matrix: `(m, n)`.
        vector: `(n,)`, not zero; nearer to the first right singular vector it gives a better value.
        times: Iterations.
    """
    largest = 0.0
    for _ in range(times):
        left = matrix @ (vector / (np.linalg.norm(vector) or 1.0))
        left = left / (np.linalg.norm(left) or 1.0)
        vector = matrix.T @ left
        largest = float(np.linalg.norm(vector))
    return largest, vector
