"""The callback of Hugging Face's Trainer."""

from collections.abc import Callable, Mapping

from transformers import TrainerCallback, TrainingArguments

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

    def __init__(self, start: Callable[..., Monitor], **options: object) -> None:
        self.training = WatchedTraining(start, options)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: object,
        control: object,
        *,
        model: object,
        optimizer: object,
        **_: object,
    ) -> None:
        """Start the watch; the training begins, or resumes from a checkpoint."""
        steps = int(args.gradient_accumulation_steps)
        self.training.begin(model, optimizer, name=args.run_name, accumulation_steps=steps)

    def on_log(
        self,
        args: object,
        state: object,
        control: object,
        *,
        logs: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        """Record what the Trainer logs of the training or its evaluation."""
        self.training.log(logs or {})

    def on_train_end(self, args: object, state: object, control: object, **_: object) -> None:
        """End the watch."""
        self.training.end()
