"""Calls a cell so that nothing is left of the call."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from ....framework.context import recording
from ....framework.random import get_state, set_state
from ....framework.tensor import Tensor
from ...access.quiet import same_random_numbers
from .view import ACCESS


class EngineFrame:
    """A cell that is called in evaluation mode, without gradients, its state kept."""

    access = ACCESS

    def __init__(self, model: Any) -> None:
        self._model = model

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Evaluation mode without gradients; flags, running statistics and random keys are put back behind it."""
        cells = [cell for _, cell in self._model.cells_and_names()]
        flags = [cell.training for cell in cells]
        kept = [(one, one.numpy().copy()) for one in self._model.get_parameters() if not one.requires_grad]
        state = get_state()
        with same_random_numbers(), recording(enabled=False):
            try:
                for cell in cells:
                    cell.training = False
                yield
            finally:
                for cell, flag in zip(cells, flags, strict=True):
                    cell.training = flag
                for parameter, values in kept:
                    if parameter.numpy().tobytes() != values.tobytes():
                        parameter.set_data(Tensor(values))
                set_state(state)

    def call(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """What the cell returns."""
        return self._model(*arguments, **keywords)

    def like(self, array: NDArray[Any], tensor: Tensor) -> Tensor:
        """The array as a tensor of the same dtype."""
        return Tensor(array.astype(tensor.dtype, copy=False))
