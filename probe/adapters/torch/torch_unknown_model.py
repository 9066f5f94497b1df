"""Finds the model of a torch script that does not know it is watched."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import TypeVar
from weakref import WeakSet, ref

import torch
import torch.distributed
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ...checks.function_mode import is_transformed
from ...guard import Guard, belongs_to_training
from .torch_adapter import TorchAdapter
from .torch_closures import Arguments, closure_of, with_reports
from .torch_cuda_graphs import CaptureListener
from .torch_hooks import is_traced
from .torch_idle_optimizers import IdleOptimizers
from .torch_kind import EarlyCalls
from .torch_later import LaterTrainings
from .torch_loaded_states import LoadedStates
from .torch_networks import (
    KnownOptimizers,
    TrainedModel,
    ids_of,
    kind_of,
    networks_holding,
    parameter_ids,
    trained_in_sight,
    trained_with,
)
from .torch_patches import EarlyLosses, add_listener, remove_listener
from .torch_raw_tensors import RawTensors, leaves_of, listed, names_of_loose, tensors_in

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
#: Modules that are called and remembered until it is known whether they are trained.
_MOST_WAITING = 256
#: Steps that another training must make, the watched one resting, until it is watched in its place; steps for which
#: each of its optimizers may rest; and how often that happens. Our choice: a student follows; clients take turns.
_STEPS_ALONE, _MOST_RESTED, _MOST_FOLLOWED = 40, 8, 2


def _kept_from_the_script(look: Callable[..., _Result]) -> Callable[..., _Result | None]:
    """Return the method of a finder with its exceptions kept from the training; the first one ends the search."""

    @wraps(look)
    def call(self: "TorchFinder", *arguments: object, **options: object) -> _Result | None:
        if self.guard.is_off:
            return None
        try:
            return look(self, *arguments, **options)
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            self.guard.failed(error)
            return None

    return call


class TorchFinder:
    """Waits for the first module that is trained, and hands over an adapter of all that is trained with it.

    That is the outermost module called with gradients on that has a trainable parameter. If an optimizer of the script
    holds one, and the module is in training mode, it is watched from this very call; if not, as a backward pass begins
    or an optimizer steps it, for only then it is trained. The adapter finds the optimizers as they step; it is told of
    one that calls the model in its closure, which is stepping already.

    Where the script goes on to train something else and leaves that model alone, as a student after its teacher, an
    adapter of it is handed over in turn.

    Args:
        found: Called with the adapter; attaches it before it returns.
        is_hasty: Whether the first module that is called in training mode is wanted, trained or not, and alone.
        followed: Called with the adapter of a model that is trained after that one; None where none is wanted.

    Attributes:
        guard: Takes what is raised meanwhile, and ends the search.
        failure: What was raised as a model was looked for or taken up; empty so far.
    """

    wraps_backward = False

    def __init__(
        self,
        found: Callable[[TorchAdapter], object],
        *,
        is_hasty: bool = False,
        followed: Callable[[TorchAdapter], object] | None = None,
    ) -> None:
        self.guard = Guard(self._give_up, lambda: "no model is looked for any more")
        self._found, self._is_hasty, self._followed_by = found, is_hasty, followed
        self._adapter: TorchAdapter | None = None
        self._waiting: list[ref[torch.nn.Module]] = []
        self._inside: WeakSet[torch.nn.Module] = WeakSet()
        self._seen: WeakSet[Optimizer] = WeakSet()
        self._elsewhere: Counter[str] = Counter()
        self._is_first, self.failure = True, ""
        self._later: LaterTrainings | None = None
        self._recorded: list[str] = []
        self._others: WeakSet[Optimizer] = WeakSet()
        self._alone: dict[int, int] = {}  # the step at which each optimizer stepped last
        self._steps_alone = self._followed = 0
        self._looked_with: frozenset[int] = frozenset()
        self._optimizers = KnownOptimizers(self.guard)
        self._early = (EarlyCalls(), EarlyLosses(self.guard), LoadedStates(self.guard))
        self._raw, self._idle = RawTensors(self._optimizers), IdleOptimizers()
        self._closures = register_optimizer_step_pre_hook(self._look_into_closure)
        self._handles = [
            register_module_forward_pre_hook(self._look_at_module),
            register_optimizer_step_post_hook(self._look_at_optimizer),
            CaptureListener(self.guard),
        ]
        add_listener(self)

    def begin_with(self, module: torch.nn.Module, inputs: object) -> None:
        """Look at a module whose call has begun before the hooks were there."""
        self._look_at_module(module, inputs)

    def stop(self) -> None:
        """Remove the global hooks."""
        for handle in (self._closures, *self._handles):
            handle.remove()
        self._handles = []
        remove_listener(self)
        if self._later is not None:
            self._later.stop()
        self._optimizers.stop()
        for early in self._early:
            early.stop()

    @_kept_from_the_script
    def backward_begins(self, roots: object) -> None:
        """Take the model that was called before this backward pass, if none is found yet."""
        if self._adapter is not None:
            return
        if (trained := self._trained_now(roots)) is not None:
            self._watch(trained).backward_begins_late(roots)
        elif (adapter := self._raw_trained(roots, lambda: leaves_of(roots))) is not None:
            adapter.backward_begins_late(roots)

    @_kept_from_the_script
    def gradients_asked(self, roots: object, inputs: object, _create_graph: bool) -> None:
        """Take the model that was called before, if gradients of parameters of its own are asked for."""
        if self._adapter is not None:
            return
        asked = tensors_in(inputs)
        if (module := self._awaited(lambda: asked)) is not None:
            if not ids_of(module).isdisjoint(map(id, asked)):
                self._take(module).gradients_asked_late(roots, inputs)
        elif (adapter := self._raw_trained(roots, lambda: [one for one in asked if one.is_leaf])) is not None:
            adapter.gradients_asked_late(roots, inputs)

    @_kept_from_the_script
    def gradients_given(self, inputs: object, gradients: object) -> None:
        """Note the gradients of tensors that may turn out to be trained; the adapter listens for itself."""
        if self._adapter is None:
            self._raw.pass_ends(inputs, gradients)

    def _give_up(self, error: BaseException) -> None:
        self.failure = f"{type(error).__name__}: {error}"
        if not self._recorded:
            self._adapter = None

    def backward_unrecorded(self, roots: object) -> None:
        """Do nothing; a finder does not sleep."""

    @_kept_from_the_script
    def backward_ends(self) -> None:
        """Note the gradients of tensors that may turn out to be trained; the adapter listens for itself."""
        if self._adapter is None:
            self._raw.pass_ends()

    def around_backward(self, _roots: object) -> Sequence[AbstractContextManager[object]]:
        """Return no contexts."""
        return ()

    def loss_scaled(self, _loss: object, _scaled: object, _scaler: object) -> None:
        """Do nothing."""

    def scaler_steps(self, _optimizer: object) -> None:
        """Do nothing."""

    def scaler_stepped(self, _optimizer: object, _scale: object) -> None:
        """Do nothing."""

    def left_out(self) -> str:
        """Return a description of what was trained beside the found model; empty where nothing is known."""
        if self.failure and not self._recorded:
            return f"the model that is trained could not be taken up ({self.failure}); nothing was recorded"
        if self._adapter is None:
            return self._raw.unmoved()
        if not self._elsewhere:
            return ""
        others = ", ".join(
            f"{words} ({count} such optimizers)" if count > 1 else words for words, count in self._elsewhere.items()
        )
        return (
            f"only {', '.join(self._recorded)} was recorded; of others, {others}: call mindscope.watch in the script, "
            "once for each model among them; what is a single number, such as a temperature, can be logged"
        )

    @_kept_from_the_script
    def _look_at_module(self, module: torch.nn.Module, _inputs: object) -> None:
        if self._adapter is not None or not torch.is_grad_enabled() or module in self._inside:
            return
        if is_transformed() or is_traced() or not _is_trainable(module):
            return
        if module.training and (self._is_hasty or self._optimizers.holds_any_of(module)):
            self._take(module).forward_begins()  # the model's own hook was attached too late for this call
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.append(ref(module))
            self._inside.update(module.modules())

    def _awaited(self, leaves: Callable[[], Iterable[torch.Tensor]]) -> torch.nn.Module | None:
        """Return the module that was called and is trained: one that an optimizer holds, else the first.

        Optimizers that hold nothing of this pass and of no module are placeholders: the script steps the first itself.
        """
        modules = [module for reference in self._waiting if (module := reference()) is not None]
        held = next((module for module in modules if self._optimizers.holds_any_of(module)), None)
        return modules[0] if modules and held is None and self._raw.has_placeholders_only(leaves) else held

    def _trained_now(self, roots: object) -> TrainedModel | None:
        """Return what a backward pass that begins trains: what was called, or what is in sight if nothing was."""
        if (module := self._awaited(lambda: leaves_of(roots))) is not None:
            return self._trained_with(module)
        makers = frozenset(map(id, self._optimizers))
        if makers == self._looked_with:
            return None
        self._looked_with = makers
        return trained_in_sight(self._optimizers)

    def _raw_trained(self, roots: object, leaves: Callable[[], Iterable[torch.Tensor]]) -> TorchAdapter | None:
        """Return the adapter of tensors of no module that this pass trains, or shows to be trained; None of others."""
        if (trained := self._raw.held(leaves)) is not None:
            return self._watch(trained)
        if self._is_hasty or is_transformed() or (first := self._raw.pass_begins(roots, leaves)) is None:
            return None
        adapter = self._watch(first.trained)
        adapter.first_step_came_before(first)
        return adapter

    def _trained_with(self, module: torch.nn.Module) -> TrainedModel:
        return TrainedModel(module) if self._is_hasty else trained_with(module, self._optimizers)

    def _take(self, module: torch.nn.Module) -> TorchAdapter:
        return self._watch(self._trained_with(module))

    def _watch(self, trained: TrainedModel) -> TorchAdapter:
        self._handles.pop(0).remove()
        self._closures.remove()
        self._adapter = TorchAdapter(
            trained.model,
            expected=trained.optimizers,
            listed=trained.listed,
            has_optimizer=self._optimizers.holds_any_of(trained.model),
            is_called_unseen=trained.is_called_unseen,
            unseen=trained.unseen,
        )
        self._waiting = []
        self._raw.forget()
        remove_listener(self)
        self._found(self._adapter)
        self._recorded.append(kind_of(trained.model))
        return self._adapter

    @_kept_from_the_script
    def _look_into_closure(
        self, optimizer: Optimizer, arguments: tuple[object, ...], options: dict[str, object]
    ) -> Arguments | None:
        """Return the arguments with a closure that reports its evaluations; None without a closure."""
        if self._adapter is not None or closure_of(arguments, options) is None:
            return None
        reports = (partial(report, optimizer) for report in (self._evaluated_in, self._goes_on_in))
        return with_reports(arguments, options, *reports)

    @_kept_from_the_script
    def _evaluated_in(self, optimizer: Optimizer) -> None:
        if self._adapter is not None:
            self._adapter.closure_evaluated(optimizer)

    @_kept_from_the_script
    def _goes_on_in(self, optimizer: Optimizer) -> None:
        if self._adapter is not None:
            self._adapter.closure_goes_on(optimizer)

    @_kept_from_the_script
    def _look_at_optimizer(self, optimizer: Optimizer, _arguments: object, _options: object) -> None:
        """Look once at each optimizer, and remember those that step another model."""
        if torch.compiler.is_compiling():
            return
        if optimizer in self._seen:
            if self._later is not None:
                self._later.stepped(optimizer)
            if self._others:
                self._follow(optimizer)
            return
        stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if all(parameter.grad is None for parameter in stepped):
            self._tell_idle(optimizer, stepped)
            return  # it moves nothing: a placeholder, or one whose time has not come
        self._seen.add(optimizer)
        if self._is_first:
            self._is_first = False
            self._look_at_the_first(optimizer, stepped)
        elif self._adapter is not None:
            known = {id(parameter) for parameter in self._adapter.model.parameters()}
            if not any(id(parameter) in known for parameter in stepped):
                self._elsewhere[_stepping(optimizer, len(stepped))] += 1
                self._others.add(optimizer)
                self._later = self._later or self._adapter.later_trainings()
                if self._later is not None:
                    self._later.begin(optimizer)
                self._follow(optimizer)

    def _tell_idle(self, optimizer: Optimizer, held: list[torch.nn.Parameter]) -> None:
        """Record what an optimizer that moves nothing tells, if something is recorded."""
        if self._adapter is not None:
            for result in self._idle.stepped(optimizer, held):
                self._adapter.tell_late(result)

    def _follow(self, optimizer: Optimizer) -> None:
        """Count the steps of a training beside the watched one, and watch it in its place where that one rests."""
        if optimizer not in self._others:
            self._alone, self._steps_alone = {}, 0
            return
        self._steps_alone += 1
        self._alone[id(optimizer)] = self._steps_alone
        if any(last < self._steps_alone - _MOST_RESTED for last in self._alone.values()):
            self._alone, self._steps_alone = {id(optimizer): 1}, 1
        is_over = self._followed >= _MOST_FOLLOWED or self._followed_by is None
        if self._steps_alone < _STEPS_ALONE or is_over or self._is_hasty or _has_ranks():
            return
        self._followed, self._steps_alone = self._followed + 1, 0
        try:
            self._take_over()
        except BaseException as error:
            if belongs_to_training(error):
                raise
            _log.warning("what is trained now has no run of its own: %s", error)
        self._alone = {}  # what steps from now on is not trained with what has a run

    def _take_over(self) -> None:
        """Hand over the adapter of what steps alone; what was trained until then is over."""
        known = tuple(one for one in self._optimizers if id(one) in self._alone)
        networks = networks_holding(set().union(*map(parameter_ids, known)))
        if not networks or self._followed_by is None:
            return
        trained = trained_with(next(iter(networks.values())), known)
        adapter = TorchAdapter(
            trained.model, expected=trained.optimizers, listed=trained.listed, has_optimizer=True, joins_late=True
        )
        self._followed_by(adapter)
        if self._later is not None:
            self._later.stop()
        self._adapter, self._later, self._others = adapter, None, WeakSet()
        self._recorded.append(kind_of(trained.model))
        for one in known:
            stepped = sum(len(group["params"]) for group in one.param_groups)
            self._elsewhere -= Counter({_stepping(one, stepped): 1})

    def _look_at_the_first(self, optimizer: Optimizer, stepped: list[torch.nn.Parameter]) -> None:
        """Find the model by this optimizer if none is found yet, and report its parameters that are not watched."""
        if self._adapter is None:
            ids = {id(parameter) for parameter in stepped}
            waiting = (module for reference in self._waiting if (module := reference()) is not None)
            model = next(
                (module for module in waiting if any(id(parameter) in ids for parameter in module.parameters())), None
            )
            if model is not None:
                self._take(model)
        known = set() if self._adapter is None else {id(parameter) for parameter in self._adapter.model.parameters()}
        others = [parameter for parameter in stepped if id(parameter) not in known]
        if others:
            watched = "no model" if self._adapter is None else kind_of(self._adapter.model)
            _log.warning(
                "%d of the %d parameters that %s steps are not watched (watched is %s): %s",
                len(others),
                len(stepped),
                type(optimizer).__name__,
                watched,
                _remedy(others),
            )


def _stepping(optimizer: Optimizer, count: int) -> str:
    return f"{type(optimizer).__name__} stepped {count} parameter{'s' * (count != 1)}"


def _remedy(others: Sequence[torch.Tensor]) -> str:
    """Return where these parameters belong, and how they are recorded."""
    loose = names_of_loose(others)
    in_modules = "other modules have them; call mindscope.watch in the script to choose the model"
    if not loose:
        return in_modules
    words = f"no Module has {listed(loose)}; to record them, make them nn.Parameter of a Module that the script trains"
    return words if len(loose) == len(others) else f"{words}; {in_modules.replace('them', 'the others', 1)}"


def _has_ranks() -> bool:
    """Return whether processes train together: they would have to follow in the same step."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _is_trainable(module: torch.nn.Module) -> bool:
    """Return whether a parameter is trained; values that stand in for parameters, as in `functional_call`, are not."""
    return any(parameter.requires_grad and parameter.is_leaf for parameter in module.parameters())
