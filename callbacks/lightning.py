"""Callback for Lightning: `Trainer(..., callbacks=[MindscopeLightningCallback(store="runs/")])`."""

from typing import Any

from ..probe.trainers.lightning_watch import LightningWatch
from ..watching import watch


class MindscopeLightningCallback(LightningWatch):
    """Record and diagnose every `fit` of a Lightning `Trainer`, a run each.

    Args:
        options: Options of `mindscope.watch`: `store`, `config`, `run`, `tags`, `listeners`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(watch, **options)


__all__ = ["MindscopeLightningCallback"]
