"""One step of training: forward, backward, clip, update; eager or compiled, in one batch or in several."""

from collections.abc import Callable
from typing import Any, Protocol

from ..nn.cell import Cell
from ..optim.clip import clip_by_global_norm
from ..optim.loss_scale import DynamicLossScaler
from ..optim.optimizer import Optimizer
from ..tensor import Tensor
from .differentiate import CompiledGradients, CompiledStep, EagerGradients


class Scaler(Protocol):
    """What scales the loss and decides whether a step is made: `DynamicLossScaler`, `FixedLossScaler`."""

    loss_scale: float

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the scale."""
        ...

    def unscale(self, optimizer: Optimizer) -> bool:
        """Whether all gradients are finite, after division by the scale."""
        ...

    def step(self, optimizer: Optimizer) -> bool:
        """Whether the optimizer made its step."""
        ...


class TrainStep:
    """A network with its loss and optimizer; calling it with a batch makes one step.

    It is no cell, so that the sites of the network stay what they are.

    Args:
        network: Put into training mode when it is not.
        loss_fn: `loss_fn(network(*inputs), target) -> scalar`; with None the network itself returns the loss of
            `network(*batch)`.
        optimizer: Steps the network's parameters.
        scaler: Scales the loss, and skips steps whose gradients overflow.
        clip_norm: Global norm to which gradients are shortened before the update.
        micro_batches: Into how many parts the batch is cut along its first axis. Their gradients are added up, each by
            its share of the rows: for a loss that is a mean over rows, and a network without batch statistics, the
            step is that of the whole batch with memory for a part of it.
        jit: Whether loss and gradients run as a compiled graph: False, True, or its level "O0" or "O1".

    Attributes:
        gradient_norm: Global norm before clipping in the last call; None without `clip_norm`.

    Example:
        >>> step = TrainStep(network, CrossEntropyLoss(), Adam(network.trainable_params()), clip_norm=1.0)
        >>> for x, y in batches.epoch(0):
        ...     loss = step(x, y)
    """

    def __init__(
        self,
        network: Cell,
        loss_fn: Callable[[Any, Any], Tensor] | None,
        optimizer: Optimizer,
        scaler: Scaler | None = None,
        clip_norm: float | None = None,
        *,
        micro_batches: int = 1,
        jit: bool | str = False,
    ) -> None:
        if clip_norm is not None and not clip_norm > 0.0:
            raise ValueError(f"TrainStep expects clip_norm above 0, or None, got {clip_norm}")
        if micro_batches < 1:
            raise ValueError(f"TrainStep expects micro_batches of 1 or more, got {micro_batches}")
        if jit not in (False, True, "O0", "O1"):
            raise ValueError(f"TrainStep expects jit to be False, True, 'O0' or 'O1', got {jit!r}")
        self.network, self.loss_fn, self.optimizer = network, loss_fn, optimizer
        self.scaler, self.clip_norm, self.micro_batches = scaler, clip_norm, micro_batches
        self.gradient_norm: float | None = None
        self._gradients: EagerGradients | CompiledGradients | CompiledStep
        if jit:
            level = jit if isinstance(jit, str) else "O1"
            is_whole = scaler is None and clip_norm is None and micro_batches == 1
            make = CompiledStep if is_whole else CompiledGradients
            self._gradients = make(self.loss_of, optimizer, scaler, micro_batches, level)
        else:
            self._gradients = EagerGradients(self.loss_of, optimizer, scaler, micro_batches)

    def loss_of(self, *batch: Tensor) -> Tensor:
        """The loss of a batch: of the network's output and the last tensor, or the network's own."""
        if self.loss_fn is None:
            own: Tensor = self.network(*batch)
            return own
        return self.loss_fn(self.network(*batch[:-1]), batch[-1])

    def __call__(self, *batch: Any) -> Tensor:
        """The loss of the batch before the update, outside the recorded graph. `batch` are tensors or arrays."""
        if not self.network.training:
            self.network.set_train()
        loss = self._gradients(tuple([x if isinstance(x, Tensor) else Tensor(x) for x in batch]))
        if self.scaler is None:
            self._clip()
            self._gradients.step()
        else:
            if self.scaler.unscale(self.optimizer):
                self._clip()
            self.scaler.step(self.optimizer)
        return loss

    def _clip(self) -> None:
        if self.clip_norm is not None:
            self.gradient_norm = clip_by_global_norm(self.optimizer.parameters, self.clip_norm)


def is_dynamic(scaler: Scaler | None) -> bool:
    """Whether the scaler keeps a state that a checkpoint has to hold."""
    return isinstance(scaler, DynamicLossScaler)
