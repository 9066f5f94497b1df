"""The callback of Hugging Face's Trainer."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from ..monitor import Monitor
from .watched_training import WatchedTraining


class TrainerWatch(TrainerCallback):  # type: ignore[misc]  # its types are not looked at
    """Watches every training of a Trainer, a run each; `mindscope.callbacks` has the one that also diagnoses.

    Seen is what is seen of plain PyTorch: gradient accumulation as micro-steps, skipped steps of a loss scaler,
    gradients after clipping; what the Trainer logs is recorded as `trainer/<name>`. Every process records its own rank.

    Args:
        start: `watch`.
        options: For `start`: `store`, `config`, `run`, `tags`, `listeners`.
    """

    def __init__(self, start: Callable[..., Monitor], **options: Any) -> None:
        self.training = WatchedTraining(start, options)

    def on_train_begin(self, args: Any, state: Any, control: Any, *, model: Any, optimizer: Any, **_: Any) -> None:
        """Start the watch; the training begins, or resumes from a checkpoint."""
        steps = int(args.gradient_accumulation_steps)
        self.training.begin(model, optimizer, name=args.run_name, accumulation_steps=steps)

    def on_log(self, args: Any, state: Any, control: Any, *, logs: Any = None, **_: Any) -> None:
        """Record what the Trainer logs of the training or its evaluation."""
        self.training.log(logs or {})

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the watch."""
        self.training.end()
