"""The step in progress: where the training stands, what is known of the step, and what is due in it."""

import math
from threading import get_ident

from ..kernels import USUAL_BINS, Bins
from ..late_scalars import LateScalar, late_sum
from ..quantities.noise_scale import MicroBatches


class CurrentStep:
    """Plain attributes, which hooks read at every call of every module.

    Attributes:
        step: Its number, from 0.
        micro_step: Number of the micro-step in progress, from 0.
        stamp: A number that differs in every micro-step of the run.
        refused: Number of the step whose update was refused to stop the training, -1 without.
        thread: Number of the thread in which the model was called last.
        is_open: Whether anything of the step was seen.
        saw_backward: Whether a backward pass has begun in the micro-step.
        has_recorded: Whether any step was closed with a record.
        root: The value that the last backward pass started from, known or late; None where that is no scalar.
        passes: Backward passes of the step that count so far.
        loss: The sum of these values over the micro-step.
        earlier_loss: The same of the step's earlier micro-steps; None without.
        loss_scale: Factor of mixed precision, None without.
        clip: Norm before the gradients were clipped by norm, and the limit; None without.
        batch_checksum: Checksum of the last batches that were read.
        micro_batches: What its backward passes have added, when the gradient noise scale is due.
        has_bad_gradient: Before an update, whether a gradient holds NaN or infinity, where gradients are due.
        due: The collectors that have something to do.
        is_idle: Whether none has: hooks, facts and clocks do nothing, and such steps are only counted, and recorded a
            few times a second.
        is_away: Whether hooks have nothing to record until the step is over.
        is_looking: Whether outputs of modules, or their gradients, or any whole tensors are due.
        sees_forward, sees_backward, sees_inputs, sees_input_grads, sees_communication, sees_unreduced: Whether the
            quantity of these hooks is due.
        wants_histogram, dumps: The hooks' subjects whose histogram, and whose whole tensors, are due.
        bins: Bins of these histograms.
        written: How many weights something other than a step has changed so far in the run.
    """

    __slots__ = (
        "batch_checksum", "bins", "clip", "due", "dumps", "earlier_loss", "has_bad_gradient", "has_recorded",
        "is_away", "is_idle", "is_looking", "is_open", "loss", "loss_scale", "micro_batches", "micro_step", "passes",
        "refused", "root", "saw_backward", "sees_backward", "sees_communication", "sees_forward",
        "sees_input_grads", "sees_inputs", "sees_unreduced", "stamp", "step", "thread", "wants_histogram", "written",
    )  # fmt: skip

    def __init__(self) -> None:
        self.step = self.micro_step = self.stamp = self.passes = self.written = 0
        self.refused, self.thread = -1, get_ident()
        self.is_open = self.saw_backward = self.has_recorded = self.has_bad_gradient = False
        self.root: float | LateScalar | None = None
        self.loss: float | LateScalar | None = None
        self.earlier_loss: float | LateScalar | None = None
        self.loss_scale: float | LateScalar | None = None
        self.clip: tuple[float | LateScalar, float] | None = None
        self.batch_checksum = math.nan
        self.micro_batches = MicroBatches()
        self.due: frozenset[str] = frozenset()
        self.is_away, self.is_idle = True, False
        self.is_looking = self.sees_forward = self.sees_backward = self.sees_inputs = self.sees_input_grads = False
        self.sees_communication = self.sees_unreduced = False
        self.wants_histogram: frozenset[str] = frozenset()
        self.dumps: frozenset[str] = frozenset()
        self.bins: Bins = USUAL_BINS

    def whole_loss(self) -> float | LateScalar | None:
        """Return the loss of the step so far, of all its micro-steps."""
        if self.loss is None or self.earlier_loss is None:
            return self.earlier_loss if self.loss is None else self.loss
        return late_sum(self.earlier_loss, self.loss)

    def next_micro_step(self) -> None:
        """Begin the next micro-step of the same step."""
        self.micro_step += 1
        self.stamp += 1
        self.saw_backward = False

    def next_step(self) -> None:
        """Begin the next step, of which nothing was seen yet."""
        self.step, self.micro_step, self.stamp = self.step + 1, 0, self.stamp + 1
        self.is_open, self.saw_backward, self.passes = False, False, 0
        self.loss_scale = self.clip = self.earlier_loss = None
