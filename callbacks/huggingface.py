"""Callback for Hugging Face: `Trainer(..., callbacks=[MindscopeCallback(store="runs/")])`."""

from typing import Any

from ..probe.trainers.huggingface_watch import TrainerWatch
from ..watching import watch


class MindscopeCallback(TrainerWatch):
    """Record and diagnose every training of a `transformers.Trainer`, a run each.

    Args:
        options: Options of `mindscope.watch`: `store`, `config`, `run`, `tags`, `listeners`.
            The Trainer's own `run_name` names the run where `run` does not.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(watch, **options)


__all__ = ["MindscopeCallback"]
