"""A cell of the engine, or a function of tensors, computed again."""

import copy
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ...framework import Tensor, no_grad
from ...framework.nn.cell import Cell
from ...framework.random import get_state, set_seed, set_state
from ...framework.tensor import Parameter
from ..adapters.engine.engine_parameters import ACCESS
from ..adapters.engine.engine_sites import owners_of
from ..tensor_access import tensors_in
from .recorded_call import Arrays, arguments, check_weights


class EngineExecution:
    """One cell, or one function, of the engine.

    Args:
        cell: A cell, one that holds it at the site, or a function of tensors.
        training: Whether it runs in training mode.
        options: Further keyword arguments, that are no tensors.
    """

    def __init__(
        self, cell: Cell | Callable[..., object], site: str, *, training: bool, options: Mapping[str, object]
    ) -> None:
        self._site, self._training, self._options = site, training, dict(options)
        self._cell = dict(cell.cells_and_names()).get(site, cell) if isinstance(cell, Cell) else cell

    def outputs(self, weights: Arrays, inputs: Arrays, *, seed: int = 0) -> dict[str, NDArray[np.generic]]:
        """Compute the outputs; random numbers come from the seed."""
        cell = self._with(self._cell, weights) if isinstance(self._cell, Cell) else self._cell
        positional, names = arguments(inputs, lambda array: Tensor(np.array(array)))
        state = get_state()
        try:
            set_seed(seed)
            with no_grad():
                output = cell(*positional, **names, **self._options)
        finally:
            set_state(state)
        return {path: tensor.numpy().copy() for path, tensor in tensors_in(output, ACCESS)}

    def _with(self, original: Cell, weights: Arrays) -> Cell:
        cell = copy.deepcopy(original)
        owners = owners_of(dict(cell.cells_and_names()))
        check_weights(self._site, {site: getattr(owner, name).shape for site, owner, name in owners}, weights)
        for site, owner, name in owners:
            setattr(owner, name, Parameter(np.array(weights[site]), requires_grad=False))
        cell.set_train(self._training)
        return cell
