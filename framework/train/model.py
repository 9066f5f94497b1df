"""`Model`: a network with its loss, optimizer and metrics; trains, evaluates and predicts.

train begin
  every epoch     epoch begin
    every batch     step begin -> TrainStep -> step end      (callbacks see the loss)
    evaluation      when one is due                          (its results get `eval_` in front)
  epoch end                                                  (callbacks see the results)
train end         also when something failed
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..amp import amp_scaler, auto_mixed_precision
from ..context import no_grad
from ..data import Dataset, Loader
from ..nn.cell import Cell
from ..optim.optimizer import Optimizer
from ..tensor import Tensor
from .callbacks.callback import Callback, RunContext
from .metrics import Loss, Metric, metric_of
from .train_step import Scaler, TrainStep
from .training_state import load_training_state, save_training_state

#: A dataset, a loader (which may stand in the middle of an epoch), or anything that yields batches.
Batches: TypeAlias = Dataset | Loader | Iterable[Any]
Metrics: TypeAlias = Mapping[str, Metric | str] | Iterable[str]
Callbacks: TypeAlias = Callback | Sequence[Callback] | None


def metrics_of(given: Metrics | None) -> dict[str, Metric]:
    """Return the metrics by the names that results have."""
    if given is None:
        return {}
    named = given if isinstance(given, Mapping) else {name: name for name in given}
    return {name: metric_of(entry) if isinstance(entry, str) else entry for name, entry in named.items()}


def listed(callbacks: Callbacks) -> list[Callback]:
    """Return the callbacks, however they were given."""
    if callbacks is None:
        return []
    return [callbacks] if isinstance(callbacks, Callback) else list(callbacks)


def call_all(callbacks: list[Callback], turn: str, context: RunContext) -> None:
    """Call this hook of every callback."""
    for callback in callbacks:
        getattr(callback, turn)(context)


@contextmanager
def between(callbacks: list[Callback], begin: str, end: str, context: RunContext) -> Iterator[None]:
    """Return a block before which every callback is begun, and after which those that were are ended, whatever
    happens."""
    begun: list[Callback] = []
    try:
        for callback in callbacks:
            begun.append(callback)
            call_all([callback], begin, context)
        yield
    finally:
        call_all(begun, end, context)


@contextmanager
def evaluating(network: Cell) -> Iterator[None]:
    """Return a block in which the network is in evaluation mode and nothing is recorded."""
    was_training = network.training
    network.set_train(False)
    try:
        with no_grad():
            yield
    finally:
        network.set_train(was_training)


def batches_of(batches: Batches, number: int) -> Iterator[tuple[Any, ...]]:
    """Return the batches of one epoch as tuples."""
    found = batches.epoch(number) if isinstance(batches, Dataset) else iter(batches)
    for batch in found:
        yield tuple(batch) if isinstance(batch, tuple | list) else (batch,)


def length_of(batches: Batches) -> int | None:
    """Return how many batches there are, if that is known."""
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_input(value: object) -> Tensor:
    """Return the value as a tensor."""
    return value if isinstance(value, Tensor) else Tensor(value)


class Model:
    """Training and evaluation of a network, in few words.

    Args:
        network: Called with all columns of a batch but the last; without `loss_fn` with all of them, to return a loss.
        loss_fn: `loss_fn(output, last column) -> scalar`.
        optimizer: Steps the network's parameters.
        metrics: Names, or a mapping of names to metrics or their names.
        eval_network: What is evaluated, in the place of `network`.
        amp_level: `O0` (all in float32) to `O3`; see `auto_mixed_precision`.
        scaler: Scales the loss; by default one that fits the level.
        clip_norm: Global norm to which gradients are shortened before the update.
        micro_batches: Into how many parts each batch is cut; see `TrainStep`.
        jit: Whether the step runs compiled; see `TrainStep`.

    Example:
        >>> model = Model(network, CrossEntropyLoss(), Adam(network.trainable_params()), {"accuracy"})
        >>> model.fit(10, train_data, valid_data, callbacks=[LossMonitor(100, print), EarlyStopping(patience=2)])
        >>> model.eval(test_data)
        {'accuracy': 0.98}
    """

    def __init__(
        self,
        network: Cell,
        loss_fn: Callable[[Any, Any], Tensor] | None = None,
        optimizer: Optimizer | None = None,
        metrics: Metrics | None = None,
        *,
        eval_network: Cell | None = None,
        amp_level: str = "O0",
        scaler: Scaler | None = None,
        clip_norm: float | None = None,
        micro_batches: int = 1,
        jit: bool | str = False,
    ) -> None:
        self.network = auto_mixed_precision(network, amp_level)
        self.eval_network = self.network if eval_network is None else eval_network
        self.loss_fn, self.optimizer = loss_fn, optimizer
        self.metrics = metrics_of(metrics)
        self.scaler = amp_scaler(amp_level) if scaler is None else scaler
        self._options: dict[str, Any] = {"clip_norm": clip_norm, "micro_batches": micro_batches, "jit": jit}
        self._step: TrainStep | None = None
        self._loader: Loader | None = None

    def train(
        self, epoch: int, train_dataset: Batches, callbacks: Callbacks = None, *, initial_epoch: int = 0
    ) -> RunContext:
        """Return where the training stands at its end.

        Args:
            epoch: Epochs there will have been; a loader that stands in epoch 3 of 10 makes the rest.
            train_dataset: The batches.
            callbacks: Called at the turns.
            initial_epoch: Epochs there have been, where the data is no loader.
        """
        return self.fit(epoch, train_dataset, callbacks=callbacks, initial_epoch=initial_epoch)

    def fit(
        self,
        epoch: int,
        train_dataset: Batches,
        valid_dataset: Batches | None = None,
        valid_frequency: int = 1,
        callbacks: Callbacks = None,
        *,
        initial_epoch: int = 0,
    ) -> RunContext:
        """Return where the training stands at its end; as `train`, with an evaluation every so many epochs.

        Raises:
            ValueError: There is no optimizer, or an epoch holds no batch.
        """
        if self.optimizer is None:
            raise ValueError("Model expects an optimizer to train; pass one when you make it")
        if epoch < 1 or valid_frequency < 1:
            raise ValueError(f"fit expects epoch and valid_frequency of 1 or more, got {epoch} and {valid_frequency}")
        called = listed(callbacks)
        self._loader = train_dataset if isinstance(train_dataset, Loader) else None
        context = RunContext(self, epoch, length_of(train_dataset))
        context.cur_step_num = self.optimizer.step_count if self._loader is not None else 0
        first = self._loader.state.epoch if self._loader is not None else initial_epoch
        with between(called, "on_train_begin", "on_train_end", context):
            for number in range(first, epoch):
                context.cur_epoch_num = number + 1
                self._epoch(number, train_dataset, called, context)
                if valid_dataset is not None and (number + 1 - first) % valid_frequency == 0:
                    found = self._evaluated(valid_dataset, called, context)
                    context.results.update({f"eval_{name}": value for name, value in found.items()})
                call_all(called, "on_train_epoch_end", context)
                if context.get_stop_requested():
                    break
        return context

    def eval(self, valid_dataset: Batches, callbacks: Callbacks = None) -> dict[str, Any]:
        """Return the metrics over all batches, by name; `loss` among them where there is a loss function.

        Raises:
            ValueError: There is nothing to compute, or no batch.
        """
        context = RunContext(self, 1, length_of(valid_dataset))
        return self._evaluated(valid_dataset, listed(callbacks), context)

    def predict(self, *inputs: object) -> Any:
        """Return what the network says in evaluation mode, outside the recorded graph."""
        with evaluating(self.eval_network):
            return self.eval_network(*(as_input(x) for x in inputs))

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write network, optimizer, scaler, place in the data and random keys to the file.

        Raises:
            ValueError: There is no optimizer.
        """
        save_training_state(path, self.network, self._needed(), **self._parts())

    def load_state(self, path: str | os.PathLike[str], train_dataset: Loader | None = None) -> None:
        """Read a saved state; `train` with this loader goes on where the state was saved.

        Raises:
            CheckpointError: The file is damaged, or holds other parts than this model has.
        """
        self._loader = train_dataset
        load_training_state(path, self.network, self._needed(), **self._parts())

    def _needed(self) -> Optimizer:
        if self.optimizer is None:
            raise ValueError("the state of a Model without optimizer is its network; use save_checkpoint()")
        return self.optimizer

    def _parts(self) -> dict[str, Any]:
        scaler = self.scaler if hasattr(self.scaler, "state_dict") else None
        return {"scaler": scaler, "loader": self._loader}

    def _epoch(self, number: int, batches: Batches, called: list[Callback], context: RunContext) -> None:
        if self._step is None:
            self._step = TrainStep(self.network, self.loss_fn, self._needed(), self.scaler, **self._options)
        mean = Loss()
        is_whole = self._loader is None or self._loader.state.position == 0
        count = 0
        call_all(called, "on_train_epoch_begin", context)
        for batch in batches_of(batches, number):
            call_all(called, "on_train_step_begin", context)
            context.net_outputs = self._step(*batch)
            context.cur_step_num += 1
            count += 1
            mean.update(context.net_outputs, len(batch[-1]))
            call_all(called, "on_train_step_end", context)
            if context.get_stop_requested():
                break
        if not count and is_whole:
            raise ValueError("the training data has no batch in an epoch; is the batch larger than the data?")
        context.results = {"loss": mean.eval()} if count else {}

    def _evaluated(self, batches: Batches, called: list[Callback], context: RunContext) -> dict[str, Any]:
        metrics = dict(self.metrics)
        losses = Loss() if self.loss_fn is not None else None
        if not metrics and losses is None:
            raise ValueError("Model expects metrics or a loss function to evaluate; pass them when you make it")
        for gathered in metrics.values():
            gathered.clear()
        call_all(called, "on_eval_begin", context)
        with evaluating(self.eval_network):
            for batch in batches_of(batches, 0):
                *inputs, target = (as_input(x) for x in batch)
                output = self.eval_network(*inputs)
                for gathered in metrics.values():
                    gathered.update(output, target)
                if losses is not None and self.loss_fn is not None:
                    losses.update(self.loss_fn(output, target), len(target))
                context.net_outputs = output
                call_all(called, "on_eval_step_end", context)
        found: dict[str, object] = {} if losses is None else {"loss": losses.eval()}
        found.update({name: gathered.eval() for name, gathered in metrics.items()})
        context.results = {**context.results, **found} if context.cur_epoch_num == 0 else context.results
        call_all(called, "on_eval_end", context)
        return found
