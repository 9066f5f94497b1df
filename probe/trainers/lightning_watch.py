"""The callback of Lightning's Trainer."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..monitor import Monitor
from .watched_training import WatchedTraining

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

# The library exists under two names; a Trainer takes only callbacks of its own name.
_Callback: Any = import_module("lightning.pytorch" if find_spec("lightning") else "pytorch_lightning").Callback


class LightningWatch(_Callback):  # type: ignore[misc]  # its types are not looked at
    """Watches every `fit` of a Trainer, a run each; `mindscope.callbacks` has the one that also diagnoses.

    Seen is what is seen of plain PyTorch: accumulated batches as micro-steps, automatic and manual optimization, loss
    scaling, gradients after clipping; what is logged is recorded as `trainer/<name>` as often as Lightning logs. The
    check of the validation before the training is not recorded.

    Args:
        start: `watch`.
        options: For `start`: `store`, `config`, `run`, `tags`, `listeners`.
    """

    def __init__(self, start: Callable[..., Monitor], **options: object) -> None:
        super().__init__()
        self.training = WatchedTraining(start, options)

    def on_train_start(self, trainer: "Trainer", pl_module: object) -> None:
        """Start the watch, once optimizers are made and a checkpoint is loaded."""
        steps = int(trainer.accumulate_grad_batches)
        name = type(pl_module).__name__
        self.training.begin(pl_module, list(trainer.optimizers) or None, name=name, accumulation_steps=steps)

    def on_train_batch_end(
        self, trainer: "Trainer", pl_module: object, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Record the logged metrics as often as Lightning logs."""
        if trainer.log_every_n_steps and trainer.global_step % trainer.log_every_n_steps == 0:
            self.training.log(trainer.logged_metrics)

    def on_validation_end(self, trainer: "Trainer", pl_module: object) -> None:
        """Record the metrics of the validation."""
        self.training.log(trainer.callback_metrics)

    def on_train_end(self, trainer: object, pl_module: object) -> None:
        """End the watch."""
        self.training.end()

    def on_exception(self, trainer: object, pl_module: object, exception: BaseException) -> None:
        """End the watch as failed or interrupted."""
        self.training.end(exception)
