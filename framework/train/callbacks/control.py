"""Callbacks that steer a training: its end, and its learning rate."""

from collections.abc import Callable
from math import inf
from typing import Literal

from ...tensor import Array
from .callback import Callback, RunContext

Mode = Literal["auto", "min", "max"]


class Best:
    """The best value of a result so far.

    Args:
        monitor: Its name.
        mode: Whether less or more is better; `auto` takes less for losses and errors, more for the others.
        min_delta: By how much a better one must differ.
    """

    def __init__(self, monitor: str, mode: Mode = "auto", min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"mode expects auto, min or max, got {mode!r}")
        if not min_delta >= 0.0:
            raise ValueError(f"min_delta expects 0 or more, got {min_delta}")
        smaller = any(word in monitor.lower() for word in ("loss", "error", "mae", "mse", "perplexity"))
        self._sign = -1.0 if mode == "max" or (mode == "auto" and not smaller) else 1.0
        self.monitor, self._min_delta = monitor, min_delta
        self.value: float | None = None

    def improves(self, value: float) -> bool:
        """Whether the value is better than the best, which it then is; NaN never is."""
        best = inf if self.value is None else self._sign * self.value
        is_better = self._sign * value < (best - self._min_delta if self.value is not None else inf)
        if is_better:
            self.value = value
        return is_better


class EarlyStopping(Callback):
    """Ends the training when a result has not improved for some epochs.

    Args:
        monitor: The result: `loss`, or one of an evaluation, as `eval_loss`.
        min_delta: By how much a better one must differ.
        patience: Epochs without improvement that are borne.
        mode: Whether less (`min`) or more (`max`) is better; told from the name by default.
        restore_best_weights: Whether the network gets the weights of its best epoch back.

    Attributes:
        stopped_epoch: The epoch after which it ended the training; None when it did not.
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: Mode = "auto",
        restore_best_weights: bool = False,
    ) -> None:
        if patience < 0:
            raise ValueError(f"EarlyStopping expects patience of 0 or more, got {patience}")
        self._arguments = (monitor, mode, min_delta)
        self._patience, self._restores = patience, restore_best_weights
        self._start()

    def _start(self) -> None:
        self.best, self._waited = Best(*self._arguments), 0
        self.stopped_epoch: int | None = None
        self._weights: list[Array] | None = None

    def on_train_begin(self, context: RunContext) -> None:
        """Nothing; nothing was seen yet."""
        self._start()

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Nothing; the training is asked to end where patience is."""
        if self.best.improves(context.result(self.best.monitor)):
            self._waited = 0
            if self._restores:
                self._weights = [p.asnumpy() for p in context.network.get_parameters()]
            return
        self._waited += 1
        if self._waited > self._patience:
            self.stopped_epoch = context.cur_epoch_num
            context.request_stop()

    def on_train_end(self, context: RunContext) -> None:
        """Nothing; the best weights are back where that was asked for."""
        if self._weights is not None:
            for parameter, values in zip(context.network.get_parameters(), self._weights, strict=True):
                parameter.set_data(values)


class LearningRateScheduler(Callback):
    """Sets the rate of every step to `function(rate, step)`.

    Args:
        function: From the rate that stands and the step, from 0, to the rate of that step.
    """

    def __init__(self, function: Callable[[float, int], float]) -> None:
        self._function = function

    def on_train_step_begin(self, context: RunContext) -> None:
        """Nothing; every group has the rate of this step."""
        if context.optimizer is not None:
            for group in context.optimizer.param_groups:
                group["lr"] = float(self._function(group["lr"], context.cur_step_num))


class ReduceLROnPlateau(Callback):
    """Multiplies the rates by a factor when a result has not improved for some epochs.

    Args:
        monitor: The result: `loss`, or one of an evaluation, as `eval_loss`.
        factor: In (0, 1).
        patience: Epochs without improvement that are borne.
        mode: Whether less (`min`) or more (`max`) is better; told from the name by default.
        min_delta: By how much a better one must differ.
        min_lr: The least rate.
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        factor: float = 0.1,
        patience: int = 10,
        mode: Mode = "auto",
        min_delta: float = 1e-4,
        min_lr: float = 0.0,
    ) -> None:
        if not 0.0 < factor < 1.0:
            raise ValueError(f"ReduceLROnPlateau expects factor between 0 and 1, got {factor}")
        if patience < 0:
            raise ValueError(f"ReduceLROnPlateau expects patience of 0 or more, got {patience}")
        self.best, self._waited = Best(monitor, mode, min_delta), 0
        self._factor, self._patience, self._least = factor, patience, min_lr

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Nothing; the rates are lower where patience is at its end."""
        if self.best.improves(context.result(self.best.monitor)):
            self._waited = 0
            return
        self._waited += 1
        if self._waited > self._patience and context.optimizer is not None:
            self._waited = 0
            for group in context.optimizer.param_groups:
                group["lr"] = max(group["lr"] * self._factor, self._least)
