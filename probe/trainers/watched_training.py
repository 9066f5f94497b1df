"""The common part of the callbacks of trainers: one monitor per training."""

from collections.abc import Callable, Mapping
from typing import Any

from ..configuration.config import Config
from ..monitor import Monitor


class WatchedTraining:
    """Begins and ends the monitor of a training that a trainer runs.

    Args:
        start: `mindscope.watch`, or another function of the same arguments.
        options: For `start`: `store`, `config`, `run`, `tags`, `listeners`.
    """

    def __init__(self, start: Callable[..., Monitor], options: Mapping[str, object]) -> None:
        self._start, self._options = start, dict(options)
        self.monitor: Monitor | None = None

    def begin(self, model: object, optimizers: object, *, name: str | None, accumulation_steps: int) -> None:
        """Watch the model, under the name from the options or else this one."""
        self.end()
        options = {**self._options, "config": _with_accumulation(self._options.get("config"), accumulation_steps)}
        options["run"] = options.get("run") or name
        self.monitor = self._start(model, optimizers, **options)

    def log(self, scalars: Mapping[str, Any]) -> None:
        """Record the numbers among these scalars under `trainer/`."""
        if self.monitor is not None:
            kept = {f"trainer/{name}": value for name, value in scalars.items() if _is_number(value)}
            self.monitor.log(kept)

    def end(self, error: BaseException | None = None) -> None:
        """End the run, as failed if there is an error."""
        monitor, self.monitor = self.monitor, None
        if monitor is not None:
            monitor.close(error)


def _with_accumulation(config: object, steps: int) -> object:
    """Add the trainer's accumulation steps, unless the configuration sets them or is a file, which is followed."""
    if config is None:
        return {"accumulation_steps": steps}
    if isinstance(config, Config):
        is_said = "accumulation_steps" in config.model_fields_set
        return config if is_said else config.model_copy(update={"accumulation_steps": steps})
    return {"accumulation_steps": steps, **config} if isinstance(config, Mapping) else config


def _is_number(value: object) -> bool:
    if isinstance(value, int | float):
        return True
    return getattr(value, "numel", lambda: 0)() == 1
