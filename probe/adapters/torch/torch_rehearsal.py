"""Repeats a step of a script that is only rehearsed: fits one batch, and compares hand-written derivatives."""

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final

import torch

from ...checks.check_result import CheckResult, broken, held, undecided
from ...checks.rehearsal.custom_backward import results_of
from ...checks.rehearsal.one_batch import MOVES, OneBatch, one_batch_is_fitted
from ...checks.rehearsal.step_tape import NotRepeatable, StepTape
from ...recording.recorder import Recorder
from .torch_parameters import TorchView
from .torch_sites import parameters_of

FROZEN: Final = "a_part_is_frozen"
#: The step that is repeated: by then the kind of the training is known. A slow script repeats the one that begins
#: after so many seconds. Our choice.
STEP: Final = 10
_PATIENCE_S: Final = 8.0
#: Parameters of a model that is copied for it, and kinds whose loss has no floor or no meaning by itself. Our choice.
_MOST_ELEMENTS: Final = 30_000_000
_UNBOUNDED: Final = frozenset({"policy", "value", "preference", "adversarial", "meta"})


class Rehearsal:
    """The step that is repeated, of one watched model.

    Args:
        model: The model.
        last: The last step that the script is let run.
        is_compiled: Whether torch has compiled the model, which is then left alone.
        freezes: Whether the script speaks of frozen parameters.
        kind: Returns the kind of training, as far as it is known.

    Attributes:
        is_over: Whether the step was repeated, or cannot be.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        view: TorchView,
        recorder: Recorder,
        *,
        last: int,
        is_compiled: bool,
        freezes: bool,
        kind: Callable[[], str],
    ) -> None:
        self._model, self._view, self._recorder = model, view, recorder
        self._at = max(0, min(STEP, last))
        self._began = monotonic()
        self._tape: StepTape | None = None
        self._rates: list[tuple[float, ...]] = []
        self._kind, self._freezes = kind, freezes
        self.is_over = is_compiled  # a mode would have torch compile the model again

    def remove(self) -> None:
        """Stop recording a step that never ended."""
        if self._tape is not None:
            self._tape.end()
            self._tape, self.is_over = None, True

    def step_ends(self, step: int) -> None:
        """Begin the tape if the next step is the one; repeat the step that ends if it was."""
        if self.is_over:
            return
        self._rates.append(tuple(float(group["lr"]) for one in self._view.optimizers for group in one.param_groups))
        if self._tape is not None:
            tape, self._tape, self.is_over = self._tape, None, True
            tape.end()
            for result in self._results(tape):
                self._recorder.event("check", "", occasion=2, **result.data())
        elif step + 1 >= self._at or monotonic() - self._began > _PATIENCE_S:
            self._begin()

    def _begin(self) -> None:
        kept = [*(one for _, one in parameters_of(self._model)), *self._model.buffers()]
        if sum(one.numel() for one in kept) > _MOST_ELEMENTS:
            self.is_over = True
            return
        self._tape = StepTape(kept)
        self._tape.begin()

    def _results(self, tape: StepTape) -> Iterable[CheckResult]:
        yield from results_of(tape.customs.values())
        if self._freezes:
            yield self._is_frozen()
        optimizers = list(self._view.optimizers)
        if len(optimizers) != 1 or isinstance(optimizers[0], torch.optim.LBFGS):
            reason = f"there are {len(optimizers)} optimizers" if len(optimizers) != 1 else "LBFGS chooses its steps"
            yield undecided(MOVES, "the optimizer lowers the loss of one batch", reason)
            return
        try:
            clip = self._recorder.current.clip
            batch = OneBatch(tape, self._named(), limit=None if clip is None else clip[1])
        except NotRepeatable as reason:
            yield undecided(MOVES, "the optimizer lowers the loss of one batch", str(reason))
            return
        is_steady = len(set(self._rates)) == 1 or "initial_lr" in optimizers[0].param_groups[0]
        is_bounded = self._kind() not in _UNBOUNDED and batch.recorded > 0
        yield from one_batch_is_fitted(batch, optimizers[0], is_bounded=is_bounded, rate_is_steady=is_steady)

    def _is_frozen(self) -> CheckResult:
        """Check that a part of the model is frozen, as the script seems to mean."""
        claim, every = "a part of the model is frozen", dict(parameters_of(self._model))
        if len(self._named()) < len(every) or not all(one.requires_grad for one in every.values()):
            return held(FROZEN, claim)
        words = f"the script speaks of frozen parameters, and all {len(every)} parameters of the model are trained"
        return broken(FROZEN, claim, words, parameters=len(every))

    def _named(self) -> dict[str, Any]:
        held = {
            id(one)
            for optimizer in self._view.optimizers
            for group in optimizer.param_groups
            for one in group["params"]
        }
        return {site: one for site, one in parameters_of(self._model) if id(one) in held}
