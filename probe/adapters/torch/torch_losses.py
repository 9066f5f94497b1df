"""Reads the values that backward passes start from, of steps that are recorded and of idle ones."""

from contextlib import suppress
from typing import Any
from weakref import ref

import torch

from ...late_scalars import LateScalar
from ...recording.recorder import Recorder
from ...tensor_access import Tensor
from . import torch_tensors as tensors
from .torch_tensors import is_remote, only_plain, only_scalar, remote


class TorchLosses:
    """Reads the values that the backward passes of one model start from."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._unscaled: tuple[Any, float | LateScalar, float | LateScalar] | None = None

    def forget(self) -> None:
        """Forget the loss that was scaled last."""
        self._unscaled = None

    def scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remember what the loss was before a scaler multiplied it."""
        if isinstance(loss, torch.Tensor) and loss.numel() == 1 and scaler.is_enabled():
            scale = scaler._get_scale_async()
            self._unscaled = (ref(scaled), self._value_of(loss), 1.0 if scale is None else self._value_of(scale))

    def loss_of(self, roots: Any) -> float | LateScalar | None:
        """Return the value of the only root of a backward pass, if it has one element; late on a device."""
        is_plain = type(roots) is torch.Tensor and roots.is_cpu and not tensors.is_any_taken_for_remote
        if is_plain and self._unscaled is None and roots.numel() == 1:
            return float(roots.item())
        root = only_scalar(roots)
        if root is None or (is_remote(root) and "loss" not in self._recorder.current.due):
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._recorder.current.loss_scale = self._unscaled[2]
            return self._unscaled[1]
        return self._value_of(root)

    def scaled_unrecorded(self, loss: Any, scaled: Any) -> None:
        """Remember what the loss of an idle step was before a scaler multiplied it."""
        if isinstance(loss, torch.Tensor) and (kept := self.kept(loss)) is not None:
            self._unscaled = (ref(scaled), kept, 1.0)

    def kept(self, roots: Any) -> float | LateScalar | None:
        """Return the value of the only root of a backward pass of an idle step; a device is read when asked for it.

        Without the root's graph, and without a wait for the device.
        """
        root = only_plain(roots)
        if root is None:
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            return self._unscaled[1]
        if root.is_cpu:
            return float(root.item())
        return _reading(root.detach())

    def known(self, roots: Any) -> float | None:
        """Return the loss for who reads every value anyway: a device is waited for."""
        loss = self.loss_of(roots)
        return float(only_scalar(roots).detach()) if callable(loss) else loss

    def _value_of(self, scalar: Tensor) -> float | LateScalar:
        away = remote(scalar)
        device_results = self._recorder.device_results
        return (
            device_results.request_value(away)
            if away is not None and device_results.accepts_requests
            else float(scalar.item())
        )


def _reading(kept: Tensor) -> LateScalar:
    """Return what reads the tensor later; None if it was changed by then, or its device has failed."""
    version = kept._version

    def read() -> float | None:
        with suppress(Exception):
            return float(kept.item()) if kept._version == version else None
        return None

    return read
