"""A torch module, or a function of tensors, computed again."""

import copy
from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from ..adapters.torch.torch_tensors import ACCESS, array_of
from ..aside import same_random_numbers
from ..tensor_access import tensors_in
from .recorded_call import Arrays, arguments, check_weights


class TorchExecution:
    """One module, or one function, of PyTorch.

    Args:
        module: A module, one that holds it at the site, or a function of tensors.
        training: Whether it runs in training mode.
        options: Further keyword arguments, that are no tensors.
    """

    def __init__(
        self, module: Callable[..., object], site: str, *, training: bool, options: Mapping[str, object]
    ) -> None:
        self._site, self._training, self._options = site, training, dict(options)
        self._module = module
        if isinstance(module, torch.nn.Module):
            self._module = dict(module.named_modules()).get(site, module)

    def outputs(self, weights: Arrays, inputs: Arrays, *, seed: int = 0) -> dict[str, NDArray[np.generic]]:
        """Compute the outputs; random numbers come from the seed."""
        is_double = any(array.dtype == np.float64 for array in (*weights.values(), *inputs.values()))
        module = self._module
        if isinstance(module, torch.nn.Module):
            module = self._with(module, weights, is_double=is_double)
        positional, names = arguments(inputs, _tensor)
        with torch.no_grad(), same_random_numbers(seed):
            output = module(*positional, **names, **self._options)
        return {path: array_of(tensor) for path, tensor in tensors_in(output, ACCESS)}

    def _with(self, original: torch.nn.Module, weights: Arrays, *, is_double: bool) -> torch.nn.Module:
        module: torch.nn.Module = copy.deepcopy(original).cpu()
        parameters = dict(module.named_parameters(remove_duplicate=False))
        check_weights(self._site, {name: tuple(parameter.shape) for name, parameter in parameters.items()}, weights)
        if is_double:  # buffers: running statistics, tables
            module.double()
        for name, parameter in parameters.items():
            parameter.data = _tensor(weights[name])
        return module.train(self._training)


def _tensor(array: NDArray[np.generic]) -> torch.Tensor:
    data = np.array(array, order="C")
    if data.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(data)
