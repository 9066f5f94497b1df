"""Callbacks that act on a training: early stopping, learning rates, checkpoints."""

import os
from collections.abc import Callable
from math import inf
from pathlib import Path
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
        """Return whether the value is better than the best, which it then is; NaN never is."""
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
        """Forget the results of earlier trainings."""
        self._start()

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Ask the training to end when patience runs out."""
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
        """Restore the best weights if that was asked for."""
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
        """Give every group the rate of this step."""
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
        """Lower the rates when patience runs out."""
        if self.best.improves(context.result(self.best.monitor)):
            self._waited = 0
            return
        self._waited += 1
        if self._waited > self._patience and context.optimizer is not None:
            self._waited = 0
            for group in context.optimizer.param_groups:
                group["lr"] = max(group["lr"] * self._factor, self._least)


class ModelCheckpoint(Callback):
    """Saves everything that a resumed training needs; see `load_training_state`.

    Files are `<prefix>-<epoch>_<step>.safetensors`, and `<prefix>-best.safetensors` for the best epoch.

    Args:
        prefix: With which the names of the files begin.
        directory: Where they go; made when it is missing.
        every_steps: Steps between checkpoints; None for none.
        every_epochs: Epochs between checkpoints; None for none.
        keep: How many of them are kept, the oldest going first; None for all. The best one stays besides.
        monitor: The result by which the best epoch is found, as `eval_accuracy`; None for no best one.
        mode: Whether less (`min`) or more (`max`) is better; told from the name by default.

    Attributes:
        latest: The last file written.
        best: The file of the best epoch.
    """

    def __init__(
        self,
        prefix: str = "checkpoint",
        directory: str | os.PathLike[str] = ".",
        *,
        every_steps: int | None = None,
        every_epochs: int | None = 1,
        keep: int | None = 5,
        monitor: str | None = None,
        mode: Mode = "auto",
    ) -> None:
        for name, count in (("every_steps", every_steps), ("every_epochs", every_epochs), ("keep", keep)):
            if count is not None and count < 1:
                raise ValueError(f"ModelCheckpoint expects {name} of 1 or more, or None, got {count}")
        if not prefix or Path(prefix).name != prefix:
            raise ValueError(f"ModelCheckpoint expects a prefix without folders, got {prefix!r}; pass directory=")
        self._prefix, self._directory = prefix, Path(directory)
        self._every_steps, self._every_epochs, self._keep = every_steps, every_epochs, keep
        self._best = None if monitor is None else Best(monitor, mode)
        self._kept: list[Path] = []
        self.latest: Path | None = None
        self.best: Path | None = None

    def on_train_begin(self, context: RunContext) -> None:
        """Make the folder."""
        self._directory.mkdir(parents=True, exist_ok=True)

    def on_train_step_end(self, context: RunContext) -> None:
        """Write a checkpoint when one is due."""
        if self._every_steps is not None and context.cur_step_num % self._every_steps == 0:
            self._save(context)

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Write a checkpoint when one is due, or when the epoch was the best."""
        if self._every_epochs is not None and context.cur_epoch_num % self._every_epochs == 0:
            self._save(context)
        if self._best is not None and self._best.improves(context.result(self._best.monitor)):
            self.best = self._directory / f"{self._prefix}-best.safetensors"
            context.model.save_state(self.best)

    def _save(self, context: RunContext) -> None:
        name = f"{self._prefix}-{context.cur_epoch_num}_{context.cur_step_num}.safetensors"
        path = self._directory / name
        context.model.save_state(path)
        self.latest = path
        if path not in self._kept:
            self._kept.append(path)
        while self._keep is not None and len(self._kept) > self._keep:
            self._kept.pop(0).unlink(missing_ok=True)
