"""Whether an output is what exact arithmetic makes of the inputs, up to the rounding that its dtype has to do.

Rounding noise is measured, not bounded: the module is computed in float64 again and again with every input and weight
moved by up to one unit roundoff of the output's dtype, which is what rounding the operands does (Monte Carlo
arithmetic, Parker 1997). What is expected of an element is the root mean square of that, and at least half a unit in
the last place. Where values nearly vanish, as in the tails of a sigmoid, a kernel that is right errs by more: by one
unit roundoff of the largest output at most, and only as far as the kernel at hand here, in the recorded dtypes, errs
there too. A wrong kernel that is at hand here as well cannot excuse itself beyond that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Verdict = Literal["rounding", "wrong_kernel", "bad_weights", "bad_input", "overflow"]

#: An error of so many times the expected noise is no rounding. Our choice, measured over dense, convolution,
#: normalisation, attention and recurrent layers: right kernels stay below 60 in float32, where a sum of 8192 terms is
#: rounded again and again, and below 4 in 16 bits, whose kernels sum in float32; products in TF32 begin at 15,000.
_MOST: Final = {16: 32.0}
_MOST_ELSE: Final = 256.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a recorded output lies to the exact one.

    Args:
        dtype: Of the recorded output; `ulps` counts its units in the last place.
        max_abs: Largest absolute difference over elements that are finite in both, as `max_rel`, `max_ulps`, and
            `max_noise`: in units of the noise that is expected of the element.
        lost_bits: Bits of precision that the output lacks on the whole: log2 of the root mean square of errors in units
            of the expected noise, 0 where that is below 1.
        wrong: Elements beyond the noise, or not finite where the exact value is a number of the dtype, or the reverse.
        not_finite: Elements that are not finite and cannot be.
        overflown: Elements that are not finite because the dtype cannot hold them, or a value on the way to them.
        worst: Index of the worst element; `recorded` and `exact` are its values.
    """

    verdict: Verdict
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    max_rel: float
    max_ulps: float
    max_noise: float
    lost_bits: float
    wrong: int
    not_finite: int
    overflown: int
    worst: tuple[int, ...]
    recorded: float
    exact: float


def judge(
    recorded: NDArray[np.generic],
    exact: NDArray[np.float64],
    moved: Sequence[NDArray[np.float64]],
    native: NDArray[np.generic] | None,
    *,
    weights_are_finite: bool = True,
) -> Judgement:
    """Judge whether a recorded output is right.

    Args:
        recorded: As the training computed it.
        exact: In float64, from the same inputs.
        moved: In float64, from inputs that were moved by rounding.
        native: In the recorded dtypes, by another kernel; None where there is none.

    Raises:
        ValueError: The shapes differ.
    """
    if recorded.shape != exact.shape:
        raise ValueError(f"an output of shape {recorded.shape} was recorded, the replay gives {exact.shape}")
    values, other = recorded.astype(np.float64), None if native is None else native.astype(np.float64)
    finite, can_be = np.isfinite(values), np.isfinite(exact)
    are_finite = finite & can_be
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.where(are_finite, np.abs(values - exact), 0.0)
        unit = _unit_in_last_place(exact, recorded.dtype)
        noise = np.maximum(_noise(exact, moved, other, unit_roundoff(recorded.dtype)), unit / 2.0)
        in_noise = np.where(are_finite, error / noise, 0.0)
        too_large = np.abs(exact) > _largest(recorded.dtype)
    overflown = ~finite & can_be & (too_large if other is None else too_large | ~np.isfinite(other))
    wrong = (in_noise > _most(recorded.dtype)) | ((finite != can_be) & ~overflown)
    neither = ~finite & ~can_be
    worst = _worst(np.where(wrong & ~are_finite, np.inf, in_noise), neither | overflown if not wrong.any() else None)
    return Judgement(
        verdict=_verdict(int(wrong.sum()), int(neither.sum()), int(overflown.sum()), weights_are_finite),
        shape=tuple(recorded.shape),
        dtype=recorded.dtype.name,
        max_abs=float(error.max(initial=0.0)),
        max_rel=float(
            np.divide(error, np.abs(exact), out=np.zeros_like(error), where=are_finite & (exact != 0)).max(initial=0.0)
        ),
        max_ulps=float(np.where(are_finite, error / unit, 0.0).max(initial=0.0)),
        max_noise=float(in_noise.max(initial=0.0)),
        lost_bits=float(np.log2(max(np.sqrt(np.mean(in_noise**2)), 1.0))) if in_noise.size else 0.0,
        wrong=int(wrong.sum()),
        not_finite=int(neither.sum()),
        overflown=int(overflown.sum()),
        worst=worst,
        recorded=float(values[worst]) if values.size else float("nan"),
        exact=float(exact[worst]) if values.size else float("nan"),
    )


def unit_roundoff(dtype: np.dtype[np.generic]) -> float:
    """Return half the distance from 1 to the next number of the dtype; that of float64 where it is no float."""
    return float(ml_dtypes.finfo(_floating(dtype)).eps) / 2.0


def _floating(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return dtype if dtype.kind == "f" or dtype.name == "bfloat16" else np.dtype(np.float64)


def _most(dtype: np.dtype[np.generic]) -> float:
    return _MOST.get(8 * dtype.itemsize, _MOST_ELSE)


def _noise(
    exact: NDArray[np.float64], moved: Sequence[NDArray[np.float64]], native: NDArray[np.float64] | None, unit: float
) -> NDArray[np.float64]:
    squares = np.mean([(output - exact) ** 2 for output in moved], axis=0) if len(moved) else np.zeros_like(exact)
    excused = np.full(exact.shape, unit * np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
    if native is not None:
        excused = np.fmin(excused, np.abs(native - exact))
    noise: NDArray[np.float64] = np.fmax(np.sqrt(squares), excused)
    return noise


def _unit_in_last_place(values: NDArray[np.float64], dtype: np.dtype[np.generic]) -> NDArray[np.float64]:
    """Return the distance between neighbours of the dtype at these values; at least its smallest number."""
    info = ml_dtypes.finfo(_floating(dtype))
    size = np.where(np.isfinite(values), np.abs(values), 1.0)
    exponent = np.frexp(np.maximum(size, float(info.smallest_normal)))[1] - 1
    spacing: NDArray[np.float64] = np.ldexp(float(info.eps), exponent)
    return np.maximum(spacing, float(info.smallest_subnormal))


def _largest(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(_floating(dtype)).max)


def _worst(in_noise: NDArray[np.float64], not_finite: NDArray[np.bool_] | None) -> tuple[int, ...]:
    """Return the index of the worst element: one that is not finite where that is all, else the farthest off."""
    if not in_noise.size:
        return ()
    score = not_finite if not_finite is not None and not_finite.any() else in_noise
    return tuple(int(axis) for axis in np.unravel_index(int(np.argmax(score)), in_noise.shape))


def _verdict(wrong: int, not_finite: int, overflown: int, weights_are_finite: bool) -> Verdict:
    if wrong:
        return "wrong_kernel"
    if not_finite:
        return "bad_input" if weights_are_finite else "bad_weights"
    return "overflow" if overflown else "rounding"
