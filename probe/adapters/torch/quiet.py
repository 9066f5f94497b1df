"""Calls a torch model so that nothing is left of the call."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from ...access.quiet import same_random_numbers
from ...access.tensors import Tensor
from .memory import ACCESS


class TorchFrame:
    """A torch model that is called in evaluation mode, without gradients, its state kept."""

    access = ACCESS

    def __init__(self, model: Any) -> None:
        wrapped = getattr(model, "module", None) if type(model).__name__ == "DistributedDataParallel" else None
        self._model = model if wrapped is None else wrapped

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Evaluation mode without gradients; flags, buffers and random generators are put back behind it."""
        flags = [(module, module.training) for module in self._model.modules()]
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        with same_random_numbers(), torch.random.fork_rng(devices), torch.no_grad():
            try:
                for module, _ in flags:
                    module.training = False
                yield
            finally:
                for module, flag in flags:
                    module.training = flag
                for buffer, kept in buffers:
                    buffer.data.copy_(kept)  # through .data: what autograd has saved of the buffer stays valid

    def call(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """What the model returns."""
        return self._model(*arguments, **keywords)

    def like(self, array: NDArray[Any], tensor: Tensor) -> Tensor:
        """The array as a tensor of the same dtype, on the same device."""
        plain = array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
        return torch.from_numpy(np.ascontiguousarray(plain)).to(dtype=tensor.dtype, device=tensor.device)
