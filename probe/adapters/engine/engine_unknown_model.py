"""Finds the model of an engine script that does not know it is watched."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakSet

from ....framework.context import is_recording
from ....framework.nn.cell import Cell
from ....framework.optim import Optimizer
from .engine_adapter import EngineAdapter


class EngineFinder:
    """Waits for the first cell that is trained, and hands over an adapter of it, once.

    That is the outermost cell called in training mode while operations are recorded. Its optimizers are those made so
    far that hold any of its parameters. The engine has no global hooks, so that `Cell.__call__` and
    `Optimizer.__init__` are replaced until the model is found.

    Args:
        found: Called with the adapter; attaches it before it returns.
    """

    def __init__(self, found: Callable[[EngineAdapter], object]) -> None:
        self._found = found
        self._optimizers: WeakSet[Optimizer] = WeakSet()
        self._originals: list[tuple[type, str, object]] = []
        self._replace(Cell, "__call__", self._watched_call)
        self._replace(Optimizer, "__init__", self._watched_start)

    def stop(self) -> None:
        """Restore the engine's own methods."""
        for owner, name, original in self._originals:
            setattr(owner, name, original)
        self._originals = []

    def left_out(self) -> str:
        """Return the empty text: other cells are not known."""
        return ""

    def _replace(self, owner: type, name: str, build: Callable[[Any], Callable[..., object]]) -> None:
        original = getattr(owner, name)
        self._originals.append((owner, name, original))
        setattr(owner, name, wraps(original)(build(original)))

    def _watched_call(self, original: Callable[..., object]) -> Callable[..., object]:
        def call(cell: Cell, *inputs: object, **options: object) -> object:
            if self._originals and cell.training and is_recording() and cell.trainable_params():
                self.stop()
                parameter_ids = {id(parameter) for parameter in cell.get_parameters()}
                stepping = [
                    optimizer
                    for optimizer in self._optimizers
                    if any(id(parameter) in parameter_ids for parameter in optimizer.parameters)
                ]
                self._found(EngineAdapter(cell, tuple(stepping)))
            return original(cell, *inputs, **options)

        return call

    def _watched_start(self, original: Callable[..., None]) -> Callable[..., None]:
        def start(optimizer: Optimizer, *arguments: object, **options: object) -> None:
            original(optimizer, *arguments, **options)
            self._optimizers.add(optimizer)

        return start
