"""Compares, at some steps, what a model predicts with its own targets and with those of other samples."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final

import torch

from ...aside import checking, is_aside
from ...checks.check_result import CheckResult
from ...checks.divergence_sign import codes_differ_from_the_prior, distance_from_the_prior
from ...checks.loss_graph import nodes_of_loss
from ...checks.model_call import outputs_of
from ...checks.own_targets import TargetFit, fit_of, joined, verdict_on, written_distances
from ...checks.score_scale import PairScores, pair_scores_of, scores_can_be_sure
from ...checks.several_targets import ComparedTerm, with_one_target_each
from ...recording.recorder import Recorder
from ...user_line import program_lines
from .silent_listener import SilentListener
from .torch_hooks import Hook
from .torch_patches import (
    add_call_listener,
    add_listener,
    current_graph_task_id,
    remove_call_listener,
    remove_listener,
    wake_call_listener,
    wake_listener,
)
from .torch_sites import ModuleSites

#: The first step that is looked at, and steps from one look to the next: a 20th of those done, so that an hour costs
#: no more than a minute. Our choice.
_FIRST, _LEAST, _SHARE = 40, 20, 20
_LOOKS: Final = 8
_MOST_CALLS, _MOST_OUTPUTS = 8, 16
#: Calls of one line between two backward passes from which on they are a loop over time; a few may be heads or views.
#: Our choice.
_LOOP: Final = 4
_NEVER: Final = 1 << 62


#: Name of a cost, and the lines of the program that led to its call.
_Call = tuple[str, tuple[tuple[str, int], ...]]


@dataclass(slots=True)
class _Looked:
    """What was seen of a step.

    Args:
        called: How many costs were called.
        outputs: Of the models, since the last backward pass.
        of_lines: How often each line has called a cost since then.
        longest: The most often that each has between two backward passes.
        terms: What each call compared, in all micro-batches.
    """

    called: int = 0
    outputs: list[torch.Tensor] = field(default_factory=list)
    of_lines: Counter[_Call] = field(default_factory=Counter)
    longest: Counter[_Call] = field(default_factory=Counter)
    terms: list[ComparedTerm] = field(default_factory=list)

    def fits(self) -> dict[str, list[TargetFit]]:
        """Return by cost the fits of its micro-batches."""
        found: dict[str, list[TargetFit]] = {}
        for term in with_one_target_each(self.terms):
            found.setdefault(term.which, []).append(term.fit)
        return found


class TorchTargets(SilentListener):
    """Watches the losses of one model at some steps; it is told the ends of steps as `TorchChecks` is.

    Between the looks it has no hooks and hears of no calls.

    Attributes:
        wants_end_of: The first step whose end `step_ends` must be told.
    """

    def __init__(self, module_sites: ModuleSites, recorder: Recorder) -> None:
        super().__init__(recorder.guard)
        self._module_sites, self._recorder = module_sites, recorder
        self._fits: dict[str, deque[TargetFit]] = {}
        self._pairs: dict[str, deque[PairScores]] = {}
        self._from_the_prior: list[float] = []
        self._names: dict[tuple[_Call, int], str] = {}
        self._told: dict[tuple[str, str], str] = {}
        self._handles: list[Any] = []
        self._looked: _Looked | None = None
        self._is_postponed = False
        self.wants_end_of = _FIRST - 1
        add_call_listener(self)
        add_listener(self)
        self._listen(False)
        recorder.due.subscribe(self._follow, of=frozenset())

    def remove(self) -> None:
        """Remove the hooks and stop listening."""
        self._is_postponed = False
        self._disarm()
        remove_call_listener(self)
        remove_listener(self)
        self.wants_end_of = _NEVER

    def step_ends(self, step: int) -> None:
        """Tell what was seen in the step that ends, and look at the next one if it is time."""
        self._is_postponed = False
        if (looked := self._looked) is not None:
            self._disarm()
            self._tell(step, looked)
            self.wants_end_of = step + max(_LEAST, step // _SHARE)
        elif self._module_sites.is_compiled or not self._recorder.config.checks:
            self.wants_end_of = _NEVER  # a hook would have torch compile the model again
        else:
            self._arm()
            self.wants_end_of = step + 1

    def _follow(self) -> None:
        """Wait with the look while steps are idle, in which nobody says where a step ends."""
        if self._looked is not None and self._recorder.current.is_idle:
            self._disarm()
            self._is_postponed = True
        elif self._is_postponed and not self._recorder.current.is_idle:
            self._is_postponed = False
            self._arm()

    # The training, while armed ----------------------------------------------------------------------------------

    def loss_called(self, name: str, input_: Any, target: Any, options: dict[str, Any]) -> None:
        """Compare the arguments of a loss function that gradients flow into."""
        looked = self._mine()
        if looked is None or looked.called >= _MOST_CALLS or not isinstance(input_, torch.Tensor):
            return
        if input_.requires_grad and isinstance(target, torch.Tensor) and target.layout is torch.strided:
            looked.called += 1
            self._add(looked, name, input_, target, options)

    def backward_begins(self, roots: Any) -> None:
        """Compare outputs and targets of distances that the program writes out."""
        looked = self._mine()
        root = roots if isinstance(roots, torch.Tensor) else None
        if looked is None or root is None or root.numel() != 1 or root.grad_fn is None:
            return
        with self.guard.quietly(), checking():
            nodes = nodes_of_loss(root, looked.outputs)
            distance = distance_from_the_prior(root.grad_fn, nodes)
            self._from_the_prior += [distance] if distance is not None else []
            for name, prediction, target in written_distances(nodes, looked.outputs):
                if looked.called < _MOST_CALLS:
                    looked.called += 1
                    self._add(looked, name, prediction, target, {}, title="the written distance")
        looked.of_lines.clear()  # calls behind it are of another micro-batch, or of another loss

    # Inside -----------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        self._looked = _Looked()
        for module in self._module_sites.entrances():
            self._handles.append(module.register_forward_hook(Hook(self._keep_output, self.guard)))
        self._listen(True)

    def _disarm(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._looked = [], None
        self._listen(False)

    def _listen(self, is_awake: bool) -> None:
        wake_call_listener(self, is_awake)
        wake_listener(self, is_awake)

    def _mine(self) -> _Looked | None:
        """Return what was seen of the step in progress, for calls of the training's own thread."""
        is_mine = not is_aside() and self._recorder.current.thread == get_ident()
        return self._looked if is_mine and current_graph_task_id() == -1 else None

    def _keep_output(self, _module: Any, _arguments: Any, output: Any) -> None:
        looked = self._mine()
        if looked is not None and torch.is_grad_enabled():
            flowing = [tensor for tensor in outputs_of(output) if tensor.grad_fn is not None]
            looked.outputs += flowing[: _MOST_OUTPUTS - len(looked.outputs)]

    def _add(
        self,
        looked: _Looked,
        name: str,
        prediction: torch.Tensor,
        target: torch.Tensor,
        options: dict[str, Any],
        *,
        title: str = "",
    ) -> None:
        with self.guard.quietly(), checking(), torch.no_grad():
            which = self._name(looked, title or name)
            fit = fit_of(name, prediction, target, options)
            if fit is not None:
                looked.terms.append(ComparedTerm(which, prediction.detach(), target.detach(), fit))
            pairs = pair_scores_of(name, prediction, target)
            if pairs is not None:
                self._pairs.setdefault(which, deque(maxlen=_LOOKS)).append(pairs)

    def _name(self, looked: _Looked, name: str) -> str:
        """Return the name of the cost: one of the same lines in another micro-batch of the step is the same."""
        call = name, program_lines()
        looked.of_lines[call] += 1
        looked.longest[call] = max(looked.longest[call], looked.of_lines[call])
        key = call, looked.of_lines[call]
        if key not in self._names:
            count = 1 + sum(known[0][0] == name for known in self._names)
            self._names[key] = name if count == 1 else f"{name} {count}"
        return self._names[key]

    def _tell(self, step: int, looked: _Looked) -> None:
        """Record what the looks so far say together, where that has changed."""
        with self.guard.quietly():
            for which, fits_of_step in self._by_loop(looked).items():
                self._fits.setdefault(which, deque(maxlen=_LOOKS)).append(joined(fits_of_step))
        codes = codes_differ_from_the_prior(self._from_the_prior, step)
        for result in self._changed([] if codes is None else [codes]):
            self._recorder.event("check", "", occasion=len(self._from_the_prior), **result.data())
        for which, fits in self._fits.items():
            sure = scores_can_be_sure(which, self._pairs.get(which, ()))
            for result in self._changed([*verdict_on(which, fits), *([sure] if sure is not None else [])]):
                self._recorder.event("check", "", occasion=len(fits), **result.data())

    def _by_loop(self, looked: _Looked) -> dict[str, list[TargetFit]]:
        """Return the fits of a step by cost, where the calls of a line in a loop are one.

        A loss that is added up over time may have nothing to learn at one of its steps, such as the first letter.
        """
        calls = {name: (call, number) for (call, number), name in self._names.items()}
        found: dict[str, list[TargetFit]] = {}
        for which, fits in looked.fits().items():
            call, number = calls[which]
            name = self._names.get((call, 1), which) if number > 1 and looked.longest[call] >= _LOOP else which
            found.setdefault(name, []).extend(fits)
        return found

    def _changed(self, results: Sequence[CheckResult]) -> Iterator[CheckResult]:
        for result in results:
            key = (result.check, result.subject)
            if self._told.get(key) != result.outcome:
                self._told[key] = result.outcome
                yield result
