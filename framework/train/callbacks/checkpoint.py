"""Checkpoints while training: every so many steps or epochs, the last few of them, and the best."""

import os
from pathlib import Path

from .callback import Callback, RunContext
from .control import Best, Mode


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
        """Nothing; the folder is there."""
        self._directory.mkdir(parents=True, exist_ok=True)

    def on_train_step_end(self, context: RunContext) -> None:
        """Nothing; a checkpoint is written when one is due."""
        if self._every_steps is not None and context.cur_step_num % self._every_steps == 0:
            self._save(context)

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Nothing; a checkpoint is written when one is due, or when the epoch was the best."""
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
