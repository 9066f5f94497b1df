"""Callbacks: what is called at the turns of a training, and what they may see and ask for."""

from os import PathLike
from typing import Any, Protocol

from ...nn.cell import Cell
from ...optim.optimizer import Optimizer
from ...tensor import Tensor


class TrainedModel(Protocol):
    """What callbacks use of the `Model` that is being trained."""

    @property
    def network(self) -> Cell:
        """The network."""

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer; None if the model only evaluates."""

    def save_state(self, path: str | PathLike[str]) -> None:
        """Save network, optimizer and progress into a file."""


class RunContext:
    """Where a training or an evaluation stands; the names of `original_args()` are MindSpore's.

    Attributes:
        model: What is being trained.
        network: Its network.
        optimizer: Its optimizer; None in an evaluation.
        epoch_num: Epochs there will have been at the end.
        batch_num: Batches of an epoch, None where the data does not tell.
        cur_epoch_num: The epoch that is running, from 1.
        cur_step_num: Steps made since the beginning of the first epoch.
        net_outputs: The loss of the step, or what the network said in an evaluation.
        results: Numbers of the last epoch by name: `loss`, and those of an evaluation with `eval_` in front.
    """

    def __init__(self, model: TrainedModel, epoch_num: int, batch_num: int | None) -> None:
        self.model, self.network, self.optimizer = model, model.network, model.optimizer
        self.epoch_num, self.batch_num = epoch_num, batch_num
        self.cur_epoch_num, self.cur_step_num = 0, 0
        self.net_outputs: Tensor | Any = None  # what a network returns
        self.results: dict[str, Any] = {}
        self._stop = False

    def original_args(self) -> "RunContext":
        """Return this context; MindSpore keeps them apart."""
        return self

    def request_stop(self) -> None:
        """Ask the training to end after this step, or this epoch."""
        self._stop = True

    def get_stop_requested(self) -> bool:
        """Return whether someone asked for the end."""
        return self._stop

    def result(self, name: str) -> float:
        """Return a number of the last epoch.

        Raises:
            ValueError: There is none of that name.
        """
        if name not in self.results:
            raise ValueError(
                f"no result {name!r} after epoch {self.cur_epoch_num}; there are {', '.join(self.results) or 'none'}; "
                f"results of an evaluation need a valid_dataset and begin with eval_"
            )
        return float(self.results[name])


class Callback:
    """Does nothing at any turn; derive from it and define those you need."""

    def on_train_begin(self, context: RunContext) -> None:
        """Run before the first epoch."""

    def on_train_epoch_begin(self, context: RunContext) -> None:
        """Run before an epoch."""

    def on_train_step_begin(self, context: RunContext) -> None:
        """Run before a step."""

    def on_train_step_end(self, context: RunContext) -> None:
        """Run after a step, its loss being `context.net_outputs`."""

    def on_train_epoch_end(self, context: RunContext) -> None:
        """Run after an epoch and its evaluation, their numbers being `context.results`."""

    def on_train_end(self, context: RunContext) -> None:
        """Run after the last epoch, also when it ended in an exception."""

    def on_eval_begin(self, context: RunContext) -> None:
        """Run before an evaluation."""

    def on_eval_step_end(self, context: RunContext) -> None:
        """Run after a batch of an evaluation, the network's output being `context.net_outputs`."""

    def on_eval_end(self, context: RunContext) -> None:
        """Run after an evaluation, its numbers being `context.results`."""
