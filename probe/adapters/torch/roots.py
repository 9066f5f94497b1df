"""What backward passes start from: the loss, without the scale of mixed precision."""

from typing import Any
from weakref import ref

import torch

from ...outbox.promises import LateScalar
from ...recording.recorder import Recorder
from .parts import is_remote, remote


class Roots:
    """Reads the values that the backward passes of one model start from."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._unscaled: tuple[Any, float | LateScalar, float | LateScalar] | None = None

    def forget(self) -> None:
        """Nothing; the loss that was scaled last is forgotten."""
        self._unscaled = None

    def scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Nothing; it is remembered what the loss was before a scaler multiplied it."""
        if isinstance(loss, torch.Tensor) and loss.numel() == 1 and scaler.is_enabled():
            scale = scaler._get_scale_async()
            self._unscaled = (ref(scaled), self._value_of(loss), 1.0 if scale is None else self._value_of(scale))

    def loss_of(self, roots: Any) -> float | LateScalar | None:
        """The value of the only tensor that a backward pass starts from, if it has one element; late on a device."""
        root = _only(roots)
        if root is None or (is_remote(root) and "loss" not in self._recorder.current.due):
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._recorder.current.loss_scale = self._unscaled[2]
            return self._unscaled[1]
        return self._value_of(root)

    def known(self, roots: Any) -> float | None:
        """The same for who looks at every value anyway: a device is waited for."""
        loss = self.loss_of(roots)
        return float(_only(roots).detach()) if callable(loss) else loss

    def _value_of(self, scalar: Any) -> float | LateScalar:
        away = remote(scalar)
        outbox = self._recorder.outbox
        return outbox.owe_value(away) if away is not None and outbox.takes_promises else float(scalar.item())


def _only(roots: Any) -> Any:
    root = roots if isinstance(roots, torch.Tensor) else roots[0] if len(roots) == 1 else None
    return None if root is None or root.numel() != 1 else root
