"""Runs the executable checks at two steps of a torch training: on copies of its models, and on its loss's graph."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident
from typing import Any, Final

import torch

from ...aside import checking, is_aside
from ...checks.blank_labels import blank_is_no_label
from ...checks.bootstrap_mask import BootstrapHistory, BootstrapMasks
from ...checks.bounded_outputs import targets_can_be_reached
from ...checks.check_result import CheckResult
from ...checks.copy_checks import checks_of_a_copy, checks_of_a_part, checks_of_a_trained_copy
from ...checks.drawn_rows import DrawnRows
from ...checks.earlier_inputs import EarlierInputs
from ...checks.flow_checks import flow_is_invertible_as_said
from ...checks.function_mode import FunctionMode, is_transformed
from ...checks.input_scales import columns_have_one_scale, that_reach_a_layer
from ...checks.judge_targets import TWO_SIDES, only_target
from ...checks.loss_tape import tensors_in
from ...checks.model_call import ModelCall, call_of, outputs_of
from ...checks.model_probe import ModelProbe, NotAnswered, NotFinite
from ...checks.padding import unpadded_rows_are_answered
from ...checks.part_order import checks_of_parts, without_claims_of_the_whole
from ...checks.random_numbers import generator_state, random_numbers_differ
from ...checks.step_direction import DOWNHILL, StepDirection
from ...checks.step_seen import MOST_CALLS, MOST_LOSSES, LossSeen, StepSeen, network_call
from ...checks.used_places import places_are_used
from ...recording.recorder import Recorder
from .silent_listener import SilentListener
from .torch_calls import ModuleCalls
from .torch_entropies import entropies
from .torch_fast_path import has_fast_path
from .torch_hooks import Hook
from .torch_loss_parts import LossParts
from .torch_patches import (
    add_call_listener,
    add_listener,
    current_graph_task_id,
    remove_call_listener,
    remove_listener,
    wake_call_listener,
    wake_listener,
)
from .torch_reached import ReachedParameters
from .torch_rehearsal import Rehearsal
from .torch_resting import RestingNetworks
from .torch_sites import ModuleSites, inner_model
from .torch_stored_samples import StoredSamples
from .torch_tape import TorchTape

#: Steps at which the checks run: the second, one at which layers that begin at zero have moved, and two at which only
#: the outputs are compared. Our choice.
OCCASIONS: Final = (1, 25, 200, 1000)
#: Occasions of all checks; at later ones only the outputs are compared.
ALL_CHECKS: Final = 2
#: Networks whose outputs are seen, and of which a copy is called; outputs, and backward passes, of a step. Our choice.
_MOST_NETWORKS, _MOST_COPIES, _MOST_OUTPUTS, _MOST_PASSES = 12, 4, 64, 4
_NEVER: Final = 1 << 62
#: Steps of which nothing may be seen before an occasion is given up.
_MOST_MISSES: Final = 8
_BEFORE_AND_BEGUN: Final = 2


class TorchChecks(SilentListener):
    """The executable checks of one watched model; a `TrainingListener` and a `CallListener` while it is armed.

    Between the occasions it has no hooks and hears of no calls. What fails is recorded as a check that stays open.

    Args:
        occasions: Fewer steps than all, for networks that are trained beside the model that the run records.
        reached: Follows the losses to what they train; None where that is not known.
        resting: Looks at networks that are called and not trained, likewise.
        concerns: Whether copies of this module are called; of all modules where it is left out.
        direction: Tells which way steps go.

    Attributes:
        wants_end_of: The first step whose end `step_ends` must be told; beyond every step when the checks are over.
        rehearsal: Repeats a step, and has columns of inputs tried as well, where the script is only rehearsed.
    """

    def __init__(
        self,
        module_sites: ModuleSites,
        recorder: Recorder,
        occasions: Sequence[int] = OCCASIONS,
        *,
        reached: ReachedParameters | None = None,
        resting: RestingNetworks | None = None,
        concerns: Callable[[torch.nn.Module], bool] = lambda _: True,
        direction: StepDirection = DOWNHILL,
    ) -> None:
        super().__init__(recorder.guard)
        self._module_sites, self._recorder, self._reached = module_sites, recorder, reached
        self._concerns, self._direction = concerns, direction
        self._resting = resting
        self._masks, self._mask_history = BootstrapMasks(self.guard), BootstrapHistory()
        self._rows = DrawnRows(self.guard)
        self._stored = StoredSamples()
        self._leaving: list[FunctionMode] = []
        self._waiting, self._is_of_the_run = list(occasions), occasions == OCCASIONS
        self._calls = ModuleCalls(module_sites, recorder) if self._is_of_the_run else None
        self._handles: list[Any] = []
        self._seen: StepSeen | None = None
        self._earlier, self._parts = EarlierInputs(), LossParts(module_sites.modules, self.guard)
        self._generators: list[tuple[bytes, ...]] = []
        self._occasion = self._misses = 0
        self.wants_end_of = OCCASIONS[0] - 1
        for add in (add_call_listener, add_listener, entropies.add):
            add(self)
        self._listen(False)
        self._is_postponed = self._has_postponed_tape = False
        self.rehearsal: Rehearsal | None = None
        self._tape = TorchTape(module_sites, recorder, is_wanted=self._is_of_the_run, direction=direction)
        if self._is_of_the_run:  # else its steps are counted by others, who also know them in idle phases
            recorder.due.subscribe(self._follow, of=frozenset())

    @property
    def is_over(self) -> bool:
        """Whether no occasion is left, nor under way."""
        return not self._waiting and self._seen is None

    @property
    def is_told_of_the_first(self) -> bool:
        """Whether the first occasion has passed."""
        return self._occasion > 0

    def postpone(self, step: int) -> None:
        """Leave the step alone that the checks are armed for, and wait for this one."""
        if self._seen is not None:
            self._disarm()
            self._waiting.insert(0, step)

    def remove(self) -> None:
        """Remove the hooks and stop listening."""
        self._disarm()
        self._tape.disarm()
        if self.rehearsal is not None:
            self.rehearsal.remove()
        remove_call_listener(self)
        remove_listener(self)
        entropies.remove(self)
        self.wants_end_of, self._is_postponed, self._has_postponed_tape = _NEVER, False, False

    def step_ends(self, step: int) -> None:
        """Run the checks if they were armed for the step that ends; arm them if they are due at the next one."""
        self._is_postponed = self._has_postponed_tape = False
        self._leaving = [mode for mode in self._leaving if not mode.leave()]
        if self._seen is not None and self._is_missed(self._seen):
            self.wants_end_of = step + 1
            return
        if self._seen is not None:
            seen = self._seen
            self._occasion += 1
            if self._calls is not None:
                self._calls.step_ends(self._occasion)
            self._disarm()
            if (result := self._mask_history.add(self._masks.shares)) is not None:
                self._tell("", [result])
            if seen.calls or seen.passes:
                self._finish(seen)
        self._tape.step_ends(step)
        if step + 1 >= self._tape.waits_for:
            self._tape.arm()
        if self._waiting and step + 1 >= self._waiting[0]:
            self._waiting = [occasion for occasion in self._waiting if occasion > step + 1]
            self._arm()
        self._listen(self._seen is not None or self._tape.is_armed)
        next_end = min(self._waiting[0] if self._waiting else _NEVER, self._tape.waits_for) - 1
        is_busy = self._seen is not None or bool(self._leaving) or self._tape.wants_end
        self.wants_end_of = step + 1 if is_busy else next_end
        if self.rehearsal is not None and not self.rehearsal.is_over:
            self.rehearsal.step_ends(step)
            self.wants_end_of = step + 1

    def _is_missed(self, seen: StepSeen) -> bool:
        """Return whether nothing of a step was seen, as where its end is told late: then the next one is waited for."""
        self._misses += not (seen.calls or seen.passes or seen.losses)
        return not (seen.calls or seen.passes or seen.losses) and self._misses <= _MOST_MISSES

    def _follow(self) -> None:
        """Wait with the checks while steps are idle, in which nobody says where a step ends."""
        if (self._seen is not None or self._tape.is_armed) and self._recorder.current.is_idle:
            self._has_postponed_tape = self._tape.is_armed
            self._is_postponed = self._seen is not None
            self._disarm()
            self._tape.disarm()
        elif not self._recorder.current.is_idle:
            if self._is_postponed:
                self._arm()
            if self._has_postponed_tape:
                self._tape.arm()
                self._listen(True)
            self._is_postponed = self._has_postponed_tape = False

    # The training, while armed ----------------------------------------------------------------------------------

    def loss_called(self, name: str, input_: Any, target: Any, options: dict[str, Any]) -> None:
        """Keep the arguments of a loss function that gradients flow into."""
        seen = self._mine()
        if seen is None or len(seen.losses) >= MOST_LOSSES:
            return
        if isinstance(input_, torch.Tensor) and input_.requires_grad:
            kept = target if isinstance(target, torch.Tensor) and target.layout is torch.strided else None
            loss = LossSeen(name, input_, kept, options)
            seen.losses.append(loss)
            if self._occasion < ALL_CHECKS:
                with self.guard.quietly(), checking(), torch.no_grad():
                    loss.only = only_target(name, kept)
                    blank = blank_is_no_label(name, kept, options)
                    seen.results += [] if blank is None else [blank]
                    seen.results += targets_can_be_reached(name, input_, kept, seen.derivatives.is_differentiated_by)

    def loss_returned(self, result: Any, options: dict[str, Any]) -> None:
        """Keep the result of the loss function."""
        del options
        seen = self._mine()
        if seen is not None and seen.losses and isinstance(result, torch.Tensor) and result.requires_grad:
            seen.losses[-1].result = result

    def entropy_returned(self, result: Any) -> None:
        """Keep the entropy of a distribution that the model has made."""
        seen = self._mine()
        if seen is not None and len(seen.entropies) < MOST_LOSSES and getattr(result, "requires_grad", False):
            seen.entropies.append(result)

    def backward_begins(self, roots: Any) -> None:
        """Read the graph of the loss, and follow its gradient for the direction of a policy."""
        if not is_aside() and self._recorder.current.thread == get_ident():
            self._tape.backward_begins(roots)
        seen = self._mine()
        if seen is None or seen.passes >= _MOST_PASSES:
            return
        self._leave_modes()
        seen.passes += 1
        root = roots if isinstance(roots, torch.Tensor) and roots.is_floating_point() else None
        if root is None or root.numel() != 1 or not seen.take_root(root):
            return
        if self._reached is not None and self._occasion < ALL_CHECKS:
            with self.guard.quietly(), checking():
                self._reached.read(root)
        if self._occasion < ALL_CHECKS:
            with self.guard.quietly(), checking():
                seen.results += seen.derivatives.results(root)
        if self._calls is not None:
            with self.guard.quietly(), checking():
                self._calls.read(root)
        with self.guard.quietly(), checking():
            guess = seen.read(root)
            if guess is not None and self._is_of_the_run:
                self._recorder.log({"target/constant_loss": guess})

    def backward_ends(self) -> None:
        """Follow the program again."""
        self._tape.backward_ends()

    def gradients_asked(self, roots: Any, inputs: Any, create_graph: bool) -> None:
        """Note the derivatives that a loss may be made of."""
        seen = self._mine()
        if seen is not None and create_graph and self._calls is not None:
            self._calls.differentiated()
        if seen is not None and self._occasion < ALL_CHECKS and not is_transformed():
            with self.guard.quietly(), checking():
                if create_graph and self._reached is not None:
                    self._reached.derivative_asked(tensors_in(inputs))
                seen.derivatives.asked(roots, inputs, has_graph=create_graph)

    def gradients_given(self, inputs: Any, gradients: Any) -> None:
        """Take the derivatives that were asked for."""
        del inputs
        seen = self._mine()
        if seen is not None and self._occasion < ALL_CHECKS and not is_transformed():
            with self.guard.quietly():
                seen.derivatives.given(gradients)

    # Inside -----------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        config, places = self._recorder.config, self._module_sites
        if not config.checks or places.is_compiled or places.is_shared_out or config.schedule("operator").is_ever_due:
            return  # a new hook would have torch compile the model again; operators would hold a copy
        self._seen = StepSeen.under(self.guard, places.parts_of_graph(), self._direction)
        self._masks, self._rows = BootstrapMasks(self.guard), DrawnRows(self.guard)
        if self._occasion < ALL_CHECKS and self._recorder.current.thread == get_ident() and not has_fast_path():
            self._rows.begin()
        if self._resting is not None:
            with self.guard.quietly(), checking(), torch.no_grad():
                self._resting.arm(self._answered)
        sites = {id(module): site for site, module in self._module_sites.modules.items()}
        for module in list(self._module_sites.entrances())[:_MOST_NETWORKS]:
            hook = Hook(self._forward_hook(sites.get(id(module), "")), self.guard)
            self._handles.append(module.register_forward_hook(hook, with_kwargs=True))
            self._handles.append(module.register_forward_pre_hook(Hook(self._note_generator, self.guard)))
        if self._occasion + 1 == ALL_CHECKS:
            self._handles += self._parts.arm(self._module_sites.entrances())
        if self._calls is not None and self._occasion < ALL_CHECKS:
            self._calls.arm()
        self._listen(True)

    def _answered(self, output: Any) -> None:
        """Follow what a network answers without gradients, until the step's first backward pass."""
        seen = self._mine()
        if seen is not None and not seen.passes and not torch.is_grad_enabled():
            with self.guard.quietly():
                self._masks.answered(output)

    def _leave_modes(self) -> None:
        for mode in (self._masks, self._rows):
            mode.stop()
            if not mode.leave() and mode not in self._leaving:
                self._leaving.append(mode)

    def _disarm(self) -> None:
        if self._seen is not None:
            self._leaving += self._seen.derivatives.stop()  # first, since it may lie above the masks
        self._leave_modes()
        for handle in self._handles:
            handle.remove()
        self._handles, self._seen = [], None
        for part in (self._resting, self._calls):
            if part is not None:
                part.disarm()
        self._listen(False)

    def _listen(self, is_awake: bool) -> None:
        wake_call_listener(self, is_awake)
        wake_listener(self, is_awake)
        entropies.wake(self, is_awake)

    def _mine(self) -> StepSeen | None:
        """Return the step in progress, for calls of the training's own thread."""
        return None if is_aside() or self._recorder.current.thread != get_ident() else self._seen

    def _forward_hook(self, site: str) -> Callable[..., None]:
        def keep(module: Any, arguments: tuple[Any, ...], keywords: Any, output: Any = None) -> None:
            seen = self._seen
            if seen is None or is_aside() or current_graph_task_id() != -1:
                return
            if self._occasion < ALL_CHECKS and len(seen.networks) < MOST_CALLS:
                with self.guard.quietly():
                    seen.networks.append(network_call(site, module, arguments, keywords, output))
            if not torch.is_grad_enabled():
                self._answered(output)
                return
            if len(seen.generators) == _BEFORE_AND_BEGUN:
                seen.generators.append(generator_state())
            with self.guard.quietly():
                flowing = [tensor for tensor in outputs_of(output) if tensor.grad_fn is not None]
                seen.outputs += flowing[: _MOST_OUTPUTS - len(seen.outputs)]
                self._parts.answered(module, list(outputs_of(output)))
                if site not in seen.calls and flowing and len(seen.calls) < _MOST_COPIES:
                    call = call_of(module, arguments, keywords).copied()
                    if call is not None:
                        seen.calls[site] = call
                        seen.positions.follow(call.tensors().values(), flowing)

        return keep

    def _note_generator(self, *_: Any) -> None:
        """Note the random generator's state before the step's first training forward."""
        seen = self._seen
        if seen is not None and len(seen.generators) == 1 and torch.is_grad_enabled() and not is_aside():
            seen.generators.append(generator_state())
            if self._resting is not None:
                with self.guard.quietly(), checking(), torch.no_grad():
                    self._resting.forward_begins()

    def _finish(self, seen: StepSeen) -> None:
        """Run the checks on copies and record all results."""
        with self.guard.quietly():
            direction = seen.policy.result()
            if direction is not None:
                seen.results.append(direction)
        if self._resting is not None:
            with self.guard.quietly(), checking(), torch.no_grad():
                self._tell("", self._resting.step_ends())
        if self._is_of_the_run:
            with self.guard.quietly(), checking(), torch.no_grad():
                self._tell("", self._stored.look())
        if self._reached is not None and self._occasion <= ALL_CHECKS:
            with self.guard.quietly(), checking():
                seen.results += self._reached.step_ends(is_first=self._occasion == 1)
        if self._occasion <= ALL_CHECKS:
            with self.guard.quietly(), checking(), torch.no_grad():
                for result in (*seen.ranges(), *self._rows.results()):
                    self._tell(result.subject if result.check == TWO_SIDES else "", [result])
            self._generators.append(tuple(seen.generators))
            seen.results += random_numbers_differ(self._generators)
            self._tell("", seen.results)
        if self._occasion <= ALL_CHECKS:
            with self.guard.quietly(), checking(), torch.no_grad():
                self._tell("", seen.layouts())
        self._call_copies(seen, self._module_sites.modules)
        if self._occasion >= ALL_CHECKS:
            self._earlier.clear()  # no later occasion compares batches

    def _call_copies(self, seen: StepSeen, modules: Mapping[str, torch.nn.Module]) -> None:
        """Record what copies of the networks tell, and what they tell together."""
        calls = {key: call for key, call in seen.calls.items() if key in modules and self._concerns(modules[key])}
        results: dict[str, list[CheckResult]] = {}
        for site, call in calls.items():
            results[site] = [*self._checked(site, modules[site], call, seen)]
            is_last = len(seen.calls) == 1 or bool(seen.losses_of(site))
            self._tell(site, results[site] if is_last else without_claims_of_the_whole(results[site]))
        if len(calls) > 1 and self._occasion <= ALL_CHECKS:
            with self.guard.quietly(), checking(), torch.no_grad():
                for site, result in checks_of_parts(calls, modules, results, seen):
                    self._tell(site, [result])
        for site, call in self._parts.calls.items() if self._occasion == ALL_CHECKS else ():
            with self.guard.quietly(), checking(), torch.no_grad():
                self._tell(site, checks_of_a_part(modules[site], call) if site not in calls else ())

    def _checked(self, site: str, model: torch.nn.Module, call: ModelCall, seen: StepSeen) -> Iterable[CheckResult]:
        found: list[CheckResult] = []
        try:
            if self._occasion > ALL_CHECKS:
                probe = ModelProbe(inner_model(model), call)
                return checks_of_a_trained_copy(probe, compares_directions=seen.compares_directions)
            found += (scales := list(columns_have_one_scale(call)))
            results, is_same_batch = self._earlier.compare(site, call, seen.targets)
            found += results
            probe = ModelProbe(inner_model(model), call)
            found = [*that_reach_a_layer(probe, scales), *found[len(scales) :]]
            compared = (seen.losses, seen.losses_of(site), seen.targets)
            for result in checks_of_a_copy(probe, *compared, picked=seen.picked, is_same_batch=is_same_batch):
                found.append(result)  # one by one: what fails later costs none of these
            if seen.flow is not None and len(seen.calls) == 1:
                found += flow_is_invertible_as_said(probe, seen.flow)
            if self._occasion >= ALL_CHECKS:  # layers that begin at zero have moved
                found += places_are_used(probe)
        except NotAnswered as reason:
            lost = unpadded_rows_are_answered(call, reason.outputs) if isinstance(reason, NotFinite) else None
            found += [lost] if lost is not None else []
            found.append(CheckResult("model_can_be_called", "open", "a copy of the model can be called", str(reason)))
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            self.guard.check_failed(error)
            words = f"{type(error).__name__}: {error}"
            found.append(CheckResult("model_can_be_called", "open", "a copy of the model can be called", words))
        return found

    def _tell(self, site: str, results: Iterable[CheckResult]) -> None:
        told: dict[tuple[str, str], CheckResult] = {}
        for result in results:  # of several passes, a broken claim counts
            key = (result.check, result.subject)
            if key not in told or result.outcome == "broken":
                told[key] = result
        for result in told.values():
            self._recorder.event("check", site, occasion=self._occasion, **result.data())
