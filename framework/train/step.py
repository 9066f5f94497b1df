"""One step of training: forward, backward, clip, update."""

from collections.abc import Callable
from typing import Any

from ..nn.cell import Cell
from ..optim.clip import clip_by_global_norm
from ..optim.loss_scale import DynamicLossScaler
from ..optim.optimizer import Optimizer
from ..tensor import Tensor


class TrainStep:
    """A network with its loss and optimizer; calling it with a batch makes one step.

    It is no cell, so that the sites of the network stay what they are.

    Args:
        network: Put into training mode when it is not.
        loss_fn: `loss_fn(network(x), y) -> scalar`.
        optimizer: Steps the network's parameters.
        scaler: Scales the loss, and skips steps whose gradients overflow.
        clip_norm: Global norm to which gradients are shortened before the update.

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
        loss_fn: Callable[[Any, Any], Tensor],
        optimizer: Optimizer,
        scaler: DynamicLossScaler | None = None,
        clip_norm: float | None = None,
    ) -> None:
        if clip_norm is not None and not clip_norm > 0.0:
            raise ValueError(f"TrainStep expects clip_norm above 0, or None, got {clip_norm}")
        self.network, self.loss_fn, self.optimizer = network, loss_fn, optimizer
        self.scaler, self.clip_norm = scaler, clip_norm
        self.gradient_norm: float | None = None

    def __call__(self, x: Any, y: Any) -> Tensor:
        """The loss of the batch before the update, outside the recorded graph. `x` and `y` are tensors or arrays."""
        if not self.network.training:
            self.network.set_train()
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.network(_tensor(x)), _tensor(y))
        if self.scaler is None:
            loss.backward()
            self._clip()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            if self.scaler.unscale(self.optimizer):
                self._clip()
            self.scaler.step(self.optimizer)
        return loss.detach()

    def _clip(self) -> None:
        if self.clip_norm is not None:
            self.gradient_norm = clip_by_global_norm(self.optimizer.parameters, self.clip_norm)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)
