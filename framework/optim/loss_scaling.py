"""Scaling of the loss, so that small half-precision gradients do not vanish.

dynamic: loss scale s, good steps n = 0
each step   gradients of s * loss, divided by s
    one is not finite   skip the step; s = max(s / factor, 1), n = 0
    all are finite      make the step; n += 1; when n reaches the window: s = min(s * factor, 2**24), n = 0
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import numpy as np

from ..dtype import Array
from ..hooks import Handle, Hooks, call_hooks
from ..tensor import Tensor
from .gradient_clipping import distinct, scale_in_place
from .optimizer import Optimizer
from .optimizer_memory import is_native
from .parameter_update import load_kernels

#: The range of the scale: at 1 it does nothing more; beyond 2**24 float32 gradients of order one would overflow soon.
_LEAST, _MOST = 1.0, 2.0**24


LOSS_SCALED: Hooks = {}


def register_loss_scaled_hook(hook: Callable[[Tensor, Tensor, float], object]) -> Handle:
    """Call `hook(loss, scaled, scale)` in this process whenever a loss scaler has multiplied a loss."""
    return Handle(LOSS_SCALED, hook)


class _LossScaler:
    """What both kinds do with a scale: multiply the loss, divide the gradients, make the step or skip it."""

    __slots__ = ("_unscaled", "loss_scale")

    def __init__(self, scale_value: float) -> None:
        self.loss_scale = float(scale_value)
        self._unscaled: bool | None = None

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale; go backward from this one."""
        scaled = loss * self.loss_scale
        if LOSS_SCALED:
            call_hooks(LOSS_SCALED, loss, scaled, self.loss_scale)
        return scaled

    def unscale(self, optimizer: Optimizer) -> bool:
        """Return True when all gradients of the optimizer's parameters are finite after division by the scale, in
        place.

        Raises:
            RuntimeError: They were divided already; call `step` first.
        """
        if self._unscaled is not None:
            raise RuntimeError(
                "the gradients were unscaled already in this step; call step() before the next unscale()"
            )
        self._unscaled = _unscale([g for g in optimizer.gradients() if g is not None], 1.0 / self.loss_scale)
        return self._unscaled

    def step(self, optimizer: Optimizer) -> bool:
        """Return True when the optimizer made its step, False when it was skipped; the scale follows."""
        is_finite = self.unscale(optimizer) if self._unscaled is None else self._unscaled
        self._unscaled = None
        if is_finite:
            optimizer.step()
        else:
            optimizer.skip_step(self.loss_scale)
        self._follow(is_finite)
        return is_finite

    def _follow(self, is_finite: bool) -> None:
        """Adapt a scale that changes after each step."""


class DynamicLossScaler(_LossScaler):
    """A loss scale that halves on overflow and grows after a window of good steps.

    Args:
        scale_value: The first scale, in [1, 2**24].
        scale_factor: By how much it grows and shrinks, above 1.
        scale_window: Good steps in a row before it grows.

    Example:
        >>> scaler.scale(loss).backward()
        >>> scaler.unscale(optimizer)  # only where gradients are needed before the step, to clip them
        >>> stepped = scaler.step(optimizer)

    Reference:
        Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
    """

    __slots__ = ("_factor", "_good_steps", "_window")

    def __init__(self, scale_value: float = 2.0**16, scale_factor: float = 2.0, scale_window: int = 2000) -> None:
        if not (isfinite(scale_value) and _LEAST <= scale_value <= _MOST):
            raise ValueError(f"DynamicLossScaler expects scale_value in [1, 2**24], got {scale_value}")
        if not (isfinite(scale_factor) and scale_factor > 1.0):
            raise ValueError(f"DynamicLossScaler expects scale_factor above 1, got {scale_factor}")
        if scale_window < 1:
            raise ValueError(f"DynamicLossScaler expects scale_window of 1 or more, got {scale_window}")
        super().__init__(scale_value)
        self._factor, self._window = float(scale_factor), scale_window
        self._good_steps = 0

    def _follow(self, is_finite: bool) -> None:
        if not is_finite:
            self.loss_scale = max(self.loss_scale / self._factor, _LEAST)
            self._good_steps = 0
            return
        self._good_steps += 1
        if self._good_steps == self._window:
            self.loss_scale = min(self.loss_scale * self._factor, _MOST)
            self._good_steps = 0

    def state_dict(self) -> dict[str, float]:
        """Return what a resumed scaler needs."""
        return {"loss_scale": self.loss_scale, "good_steps": self._good_steps}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Take the scale and the count of good steps from `state`.

        Raises:
            ValueError: One of the two is missing.
        """
        missing = [key for key in ("loss_scale", "good_steps") if key not in state]
        if missing:
            raise ValueError(f"DynamicLossScaler cannot take this state: {', '.join(missing)} missing")
        self.loss_scale = float(state["loss_scale"])
        self._good_steps = int(state["good_steps"])


class StaticLossScaler(_LossScaler):
    """A loss scale that stays; a step whose gradients overflow is skipped.

    Args:
        scale_value: The scale, 1 or more.
    """

    __slots__ = ()

    def __init__(self, scale_value: float) -> None:
        if not (isfinite(scale_value) and scale_value >= _LEAST):
            raise ValueError(f"StaticLossScaler expects scale_value of 1 or more, got {scale_value}")
        super().__init__(scale_value)


def _unscale(gradients: Sequence[Array], inverse: float) -> bool:
    kernels = load_kernels()
    is_finite = True
    for array in distinct(gradients):
        if is_native(array) and array.flags.c_contiguous and array.flags.writeable:
            is_finite &= bool(kernels.unscale(array.reshape(-1), inverse))
        else:
            scale_in_place(array, inverse)
            is_finite &= bool(np.isfinite(array).all())
    return is_finite
