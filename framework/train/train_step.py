"""One training step: forward, backward, clip, update; eager or compiled, in one batch or in several."""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ..errors import ShapeError
from ..nn.cell import Cell
from ..optim.gradient_clipping import clip_by_global_norm
from ..optim.loss_scaling import DynamicLossScaler
from ..optim.optimizer import Optimizer
from ..optim.optimizer_memory import GradientArena
from ..tensor import Tensor, wrap
from ..transforms import value_and_grad

Batch = tuple[Tensor, ...]

# Gradients smaller than this on average are copied into the optimizer's arena, so that one kernel call moves them all;
# larger ones are read where they are. Our choice: at 16384 float32 a copy costs about as much as a call.
_SMALL = 16384


class EagerGradients:
    """Gradients by the tape.

    Args:
        loss_of: The loss of a batch.
        optimizer: Whose parameters get the gradients.
        scaler: What scales the loss.
        micro_batches: Into how many parts the batch is cut.
    """

    def __init__(
        self, loss_of: Callable[..., Tensor], optimizer: Optimizer, scaler: "Scaler | None", micro_batches: int
    ) -> None:
        self._loss_of, self._optimizer, self._scaler, self._parts = loss_of, optimizer, scaler, micro_batches

    def __call__(self, batch: Batch) -> Tensor:
        """Return the loss; its gradients, scaled where there is a scaler, are on the parameters."""
        self._optimizer.zero_grad()
        if self._parts == 1:
            loss = self._loss_of(*batch)
            self._backward(loss)
            return loss.detach()
        total: Tensor | None = None
        for share, part in parts_of(batch, self._parts):
            loss = self._loss_of(*part) * share
            self._backward(loss)
            total = loss.detach() if total is None else total + loss.detach()
        assert total is not None  # there is one part or more
        return total

    def _backward(self, loss: Tensor) -> None:
        (loss if self._scaler is None else self._scaler.scale(loss)).backward()

    def step(self) -> None:
        """Make the optimizer's step."""
        self._optimizer.step()


class CompiledGradients:
    """Gradients by a compiled graph; those of small parameters go into the optimizer's arena.

    Args:
        loss_of: The loss of a batch.
        optimizer: Whose parameters get the gradients.
        scaler: What scales the loss; its scale is an argument of the graph.
        micro_batches: Into how many parts the batch is cut.
        level: Of the compilation.
    """

    def __init__(
        self,
        loss_of: Callable[..., Tensor],
        optimizer: Optimizer,
        scaler: "Scaler | None",
        micro_batches: int,
        level: str,
    ) -> None:
        self._optimizer, self._scaler, self._parts = optimizer, scaler, micro_batches
        self._is_plain = scaler is None and micro_batches == 1
        parameters = optimizer.parameters

        def weighted(factor: Tensor, *batch: Tensor) -> tuple[Tensor, Tensor]:
            loss = loss_of(*batch)
            return loss * factor.astype(loss.dtype), loss

        jit = import_module("..compiler", __package__).jit  # a third of the import of the engine, for those who ask
        if self._is_plain:
            self._run = jit(value_and_grad(loss_of, None, parameters), jit_level=level)
        else:
            self._run = jit(value_and_grad(weighted, None, parameters, has_aux=True), jit_level=level)
        self._arena: GradientArena | None = None
        size = sum(p.size for p in parameters) / len(parameters)
        if size < _SMALL or micro_batches > 1:
            self._arena = optimizer.gradient_arena()
            self._views = tuple(wrap(view) for view in self._arena.views)

    def __call__(self, batch: Batch) -> Tensor:
        """Return the loss; its gradients, scaled where there is a scaler, are on the parameters."""
        if self._is_plain:
            loss: Tensor
            loss, found = self._run(*batch)
            self._keep(found)
            return loss
        scale = 1.0 if self._scaler is None else self._scaler.loss_scale
        total: Tensor | None = None
        for share, part in parts_of(batch, self._parts):
            (_, loss), found = self._run(Tensor(np.asarray(scale * share, np.float64)), *part)
            self._keep(found) if total is None else self._add(found)
            total = loss * share if total is None else total + loss * share
        assert total is not None  # there is one part or more
        if self._scaler is not None:
            self._scaler.scale(total)  # for those who watch it
        return total

    def _keep(self, found: tuple[Tensor, ...]) -> None:
        if self._arena is not None:
            for view, gradient in zip(self._arena.views, found, strict=True):
                if gradient._data is not view:
                    view[...] = gradient._data
            found = self._views
        for parameter, gradient in zip(self._optimizer.parameters, found, strict=True):
            parameter._grad = gradient

    def _add(self, found: tuple[Tensor, ...]) -> None:
        assert self._arena is not None  # several parts always have one
        for view, gradient in zip(self._arena.views, found, strict=True):
            np.add(view, gradient._data, out=view)

    def step(self) -> None:
        """Make the optimizer's step."""
        if self._arena is not None:
            self._optimizer(self._arena.views)
        else:
            self._optimizer.step()


class CompiledStep:
    """Loss, gradients and update by one compiled graph, which writes the gradients where the optimizer reads them.

    Args:
        loss_of: The loss of a batch.
        optimizer: Whose parameters get the gradients, and which makes its step.
        scaler: None.
        micro_batches: 1.
        level: Of the compilation.
    """

    def __init__(
        self,
        loss_of: Callable[..., Tensor],
        optimizer: Optimizer,
        scaler: "Scaler | None",
        micro_batches: int,
        level: str,
    ) -> None:
        assert scaler is None  # those take CompiledGradients
        assert micro_batches == 1
        both = value_and_grad(loss_of, None, optimizer.parameters)

        def whole(*batch: Tensor) -> Tensor:
            loss, gradients = both(*batch)
            optimizer(gradients)
            return loss

        self._run = import_module("..compiler", __package__).jit(whole, jit_level=level)
        views = tuple(wrap(view) for view in optimizer.gradient_arena().views)
        self._grads = tuple(zip(optimizer.parameters, views, strict=True))

    def __call__(self, batch: Batch) -> Tensor:
        """Return the loss; the step is made, and the gradients are on the parameters."""
        loss: Tensor = self._run(*batch)
        for parameter, gradient in self._grads:
            parameter._grad = gradient
        return loss

    def step(self) -> None:
        """Do nothing: the graph has made the step."""


def parts_of(batch: Batch, count: int) -> Iterator[tuple[float, Batch]]:
    """Return the parts of a batch along the first axis of all its tensors, each with its share of the rows.

    Raises:
        ShapeError: The tensors have unequally many rows, or fewer than there are parts.
    """
    rows = batch[0].shape[0] if batch and batch[0].ndim else 0
    if any(x.ndim == 0 or x.shape[0] != rows for x in batch) or rows < count:
        shapes = ", ".join(str(x.shape) for x in batch)
        raise ShapeError(f"{count} micro-batches expect tensors of one number of rows, {count} or more, got {shapes}")
    if count == 1:
        yield 1.0, batch
        return
    ends = [rows * part // count for part in range(count + 1)]
    for start, end in pairwise(ends):
        yield (end - start) / rows, tuple(_rows(x, start, end) for x in batch)


def _rows(x: Tensor, start: int, end: int) -> Tensor:
    return x[start:end]


class Scaler(Protocol):
    """What scales the loss and decides whether a step is made: `DynamicLossScaler`, `FixedLossScaler`."""

    loss_scale: float

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale."""
        ...

    def unscale(self, optimizer: Optimizer) -> bool:
        """Return whether all gradients are finite, after division by the scale."""
        ...

    def step(self, optimizer: Optimizer) -> bool:
        """Return whether the optimizer made its step."""
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
        """Return the loss of a batch: of the network's output and the last tensor, or the network's own."""
        if self.loss_fn is None:
            own: Tensor = self.network(*batch)
            return own
        return self.loss_fn(self.network(*batch[:-1]), batch[-1])

    def __call__(self, *batch: object) -> Tensor:
        """Make the step and return the loss; the gradients are on the parameters."""
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
    """Return whether the scaler keeps a state that a checkpoint has to hold."""
    return isinstance(scaler, DynamicLossScaler)
