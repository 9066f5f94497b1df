"""The adapter of PyTorch: a module and its optimizers, watched through torch's own hooks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ....storage.records import Json
from ....storage.run import Structure
from ...collectors.collector import COLLECTORS
from ...configuration.select import choose_sites
from ...errors import ConfigError, NotWatchable
from ...kernels.device import DeviceQueue
from ...recording.recorder import Recorder
from ...taps.batch_hooks import BatchTaps
from ...taps.forward import ForwardTaps
from ...taps.handles import Several
from ...taps.inputs import InputTaps
from ...taps.local_gradients import watch_local_gradients
from ...taps.noise_hooks import watch_micro_batches
from ...taps.resting import Put, RestingHooks
from ...taps.site_hooks import OF_MODULES, SiteHooks
from ..course import Course
from ..groups import check_belongs
from ..trace import CallTrace
from .checkpoint import SUFFIX, save_state
from .communication import CommunicationTaps
from .facts import TorchFacts
from .hooks import ForwardHandle, Hook, OpeningHook
from .memory import ACCESS
from .outputs import output_hook
from .patches import add_listener, remove_listener, wake_listener
from .quantities import watch_quantities
from .ranks import TorchRanks, watch_ranks
from .recompute import in_backward, is_first_of_two
from .roots import Roots
from .sites import ModuleSites, owners_of, parameters_of
from .steps import StepHooks, without_wrapper
from .structure import optimizer_infos, parameter_infos
from .trace import TorchTracer
from .view import TorchView

#: Due steps from one look for modules that changed, where no forward was seen to begin, to the next.
_LOOK_EVERY = 10
#: Sites that an event names.
_MOST_NAMED = 16


class TorchAdapter:
    """Watches one torch model.

    Args:
        model: The module whose forward is the model's.
        optimizers: Those that step its parameters; none at all means whichever turns out to do so.
    """

    checkpoint_suffix = SUFFIX

    def __init__(self, model: Any, optimizers: tuple[Any, ...] = ()) -> None:
        if not isinstance(model, torch.nn.Module):
            raise NotWatchable(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the module itself")
        for optimizer in optimizers:
            if not isinstance(optimizer, torch.optim.Optimizer):
                raise NotWatchable(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        self.model = model
        self.view = TorchView(self._report)
        self.framework = f"torch {torch.__version__}"
        self.structure_version = 0
        self._given = tuple(without_wrapper(optimizer) for optimizer in optimizers)
        self._places = ModuleSites(model)
        self._is_compiled = bool(self._places.compiled)
        self._modules = self._places.modules
        self._named: dict[str, Any] = {}
        self._handles: list[Any] = []
        self._knows_order = False
        self._counts, self._steps_before = (-1, -1), 0
        self._looks = 0
        self._inside: list[Any] = []  # handles on modules and parameters, made anew when the model gets others
        self._tracer: TorchTracer | None = None
        self._ranks: tuple[TorchRanks, ...] = ()

    def modules(self) -> Mapping[str, Any]:
        """The modules by site."""
        return self._modules

    def attach(self, recorder: Recorder) -> None:
        """Puts every hook on.

        Raises:
            SiteNotFound: A pattern of the configuration matches nothing.
        """
        self._recorder = recorder
        recorder.outbox.device = DeviceQueue()
        self._roots = Roots(recorder)
        if recorder.refusal == "skip" and any(hasattr(one, "placements") for one in self.model.parameters()):
            raise ConfigError(
                "on_finding: skip_step needs whole gradients on every rank, and this model's are sharded: each rank "
                "would decide for itself; use a GradScaler, or stop"
            )
        self._named = dict(parameters_of(self.model))
        sites, names = choose_sites(self._modules, list(self._named), recorder.config)
        self.view.add((name, self._named[name]) for name in names)
        self._trace = self._traced()
        for site, hidden in self._places.compiled.items():
            recorder.event("compiled", site, modules=hidden)
        self._taps = ForwardTaps(recorder, ACCESS, partial(getattr, self.model, "training"))
        self.course = Course(recorder, self.view, self._taps, before_step=self._look, at_end=self._tell_order)
        self._steps = StepHooks(self.course, self.view, recorder)
        self._opening = OpeningHook(self._opens)
        self._batches = BatchTaps(recorder, ACCESS, self._taps.counts)
        self._facts = TorchFacts(
            self.model, self._modules, self.view, recorder, counts=self._taps.counts, changed=self._structure_changes
        )
        self._handles.append(self._facts)
        self._inputs = InputTaps(recorder, ACCESS, self._taps.counts)
        self._watch_entrances(recorder)
        self._hooks: dict[str, ForwardHandle] = {}
        self._site_hooks = SiteHooks(recorder, self._hook_site, self._is_ours_alone)
        self._handles.append(self._site_hooks)
        self._watch(sites)
        recorder.tell(self._site_hooks.follow, of=OF_MODULES)
        for optimizer in self._given:
            check_belongs(optimizer, self.model.parameters(), self.model)
            self._adopt(optimizer)
        if not self._given:
            self._handles.append(register_optimizer_step_pre_hook(self._perhaps_adopt))
        if recorder.config.nan_trace:
            self._tracer = TorchTracer(self.model, recorder)
            self._handles.append(self._tracer)
        self._watch_inside(sites)
        if distributed.is_available() and distributed.is_initialized():
            self._communication = CommunicationTaps(recorder)
            self._communication.attach()
            self._handles.append(self._communication)
        self._ranks = watch_ranks(recorder, self.view)
        self._handles += self._ranks
        add_listener(self)
        recorder.tell(lambda: wake_listener(self, not recorder.is_idle), of=frozenset())

    def detach(self) -> None:
        """Takes every hook off."""
        remove_listener(self)
        for handle in (*self._handles, *self._inside):
            handle.remove()
        self._handles, self._inside = [], []
        if hasattr(self, "_roots"):
            self._roots.forget()
        if hasattr(self, "_trace"):
            self._trace.stop()

    def reselect(self) -> None:
        """Nothing; hooks are on the modules that the recorder's configuration now picks.

        Raises:
            SiteNotFound: A pattern matches nothing; the hooks stay as they are.
        """
        named = [name for name, _ in parameters_of(self.model)]
        self._watch(choose_sites(self._modules, named, self._recorder.config)[0])

    def _watch_entrances(self, recorder: Recorder) -> None:
        """Puts on what sees forwards of the whole model begin, in front of all other hooks there."""
        entrances = [*self._places.entrances()]
        hooks: list[tuple[Hook, bool]] = [(self._opening, False)]
        if self._batches.is_wanted:
            hooks.append((Hook(self._batches.hook()), True))

        def put(entrance: Any, hook: Hook, has_keywords: bool) -> Put:
            return lambda is_again: entrance.register_forward_pre_hook(hook, with_kwargs=has_keywords, prepend=is_again)

        resting = RestingHooks(
            [put(entrance, hook, has_keywords) for entrance in entrances for hook, has_keywords in hooks],
            is_needed=lambda: not recorder.is_idle_for_long,
            rests=lambda: recorder.is_idle_for_long,
            may_rest=lambda: not self._inputs.is_wanted and self._is_alone_at(entrances),
        )
        self._handles.append(resting)
        recorder.tell(resting.follow, of=frozenset())

    def _is_alone_at(self, modules: Sequence[Any]) -> bool:
        """Whether nobody else has hooks before these modules, and none of them is compiled."""
        hooks = [hook for module in modules for hook in module._forward_pre_hooks.values()]
        return not self._is_compiled and all(isinstance(hook, Hook) for hook in hooks)

    def _watch_inside(self, sites: Sequence[str]) -> None:
        """Puts on what looks at single parameters, and at modules for what they are."""
        for handle in self._inside:
            handle.remove()
        recorder, named = self._recorder, self._named.items()
        seen = [site for site in sites if self._places.is_visible(self._modules[site])]
        self._inside = [
            *watch_local_gradients(named, ACCESS, recorder),
            *watch_micro_batches(named, ACCESS, recorder),
            *watch_quantities(
                recorder, self._taps.counts, self._modules, seen, self._places.hooked, self._is_ours_alone
            ),
        ]

    def _watch(self, sites: Sequence[str]) -> None:
        self._site_hooks.watch(site for site in sites if self._places.is_visible(self._modules[site]))

    def _hook_site(self, site: str, is_again: bool) -> Any:
        """The hooks of a site, put on; again they come before those that others have put there meanwhile."""
        if is_again:  # which is only where there is one
            return self._hooks[site].put_back()
        module = self._places.hooked(self._modules[site])
        after = self._hooks[site] = ForwardHandle(module, output_hook(self._taps, site, self.model))
        if not self._inputs.is_wanted:
            return after
        return Several([after, module.register_forward_pre_hook(Hook(self._inputs.hook(site)), with_kwargs=True)])

    def _is_ours_alone(self, site: str) -> bool:
        """Whether taking the hooks of a site off and on again changes no order, and makes nothing compile anew."""
        if self._is_compiled or self._inputs.is_wanted:
            return False
        hooks = self._places.hooked(self._modules[site])._forward_hooks
        return all(map(isinstance, hooks.values(), repeat(Hook)))

    def structure(self) -> Structure:
        """Modules in the order of their first calls, all parameters, the optimizers."""
        return Structure(
            self._trace.modules(lambda module: module.children()),
            parameter_infos(
                ((site, getattr(module, name)) for site, module, name in owners_of(self._modules)), self.view.optimizers
            ),
            optimizer_infos(self.view.optimizers),
            tuple(name for name, entry in COLLECTORS.items() if entry.columns),
        )

    def save_state(self, path: Path) -> None:
        """Nothing; the file holds what `torch.load` gives back."""
        save_state(path, self.model, self.view.optimizers)

    def step_done(self) -> None:
        """Closes the step of a loop without an optimizer."""
        self.course.step_done()

    def forward_begins(self) -> None:
        """The model is called."""
        if not self._recorder.is_idle:
            self._facts.facts.forward_begins()
        self.course.forward_begins()
        for ranks in self._ranks:
            ranks.forward_begins()
        if not self._recorder.is_idle and self._places.has_changed():  # before the forward reaches what is new
            self._take_in_what_changed(self._counts[1])

    def backward_begins(self, roots: Any) -> None:
        """A backward pass of the process starts from these tensors."""
        if self._recorder.is_idle:
            return
        if self._opening.was_compiled:  # of that forward only this is known
            self._is_compiled = True
            self._opening.was_compiled = self._recorder.expects_activations = False
            self.course.forward_begins()
        if self.course.backward_begins(partial(self._roots.loss_of, roots)):
            self._facts.facts.backward_begins(self._recorder.root)

    def backward_ends(self) -> None:
        """The backward pass is over."""
        if not self._recorder.is_idle:
            self._recorder.backward_ends()

    def around_backward(self, roots: Any) -> Sequence[AbstractContextManager[Any]]:
        """What the backward pass runs inside of, if anything."""
        if self._tracer is None or not self._recorder.is_open:
            return ()
        return (self._tracer.backward(roots, self._roots.known(roots)),)

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remembers what the loss was before it was scaled."""
        if not self._recorder.is_idle:
            self._roots.scaled(loss, scaled, scaler)

    def scaler_steps(self, _optimizer: Any) -> None:
        """Notes how often optimizers have stepped, before a scaler may keep one of them from that."""
        self._steps_before = self._steps.count

    def scaler_stepped(self, optimizer: Any, scale: Callable[[], float]) -> None:
        """Closes the step as skipped when the scaler has kept the optimizer from stepping."""
        if any(optimizer is one for one in self.view.optimizers) and self._steps.count == self._steps_before:
            self.course.step_skipped(optimizer, float(scale()))

    def _perhaps_adopt(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        if any(optimizer is one for one in self.view.optimizers):
            return
        if self._is_of_this_model(optimizer):
            self._adopt(optimizer)  # whose own hooks run after this one

    def _adopt(self, optimizer: Any) -> None:
        self.view.optimizers.append(optimizer)
        self._handles.append(optimizer.register_step_pre_hook(self._steps.before))
        self._handles.append(optimizer.register_step_post_hook(self._steps.after))
        self.structure_version += 1

    def _is_of_this_model(self, optimizer: Any) -> bool:
        mine = {id(parameter) for parameter in self.model.parameters()}
        return any(id(one) in mine for group in optimizer.param_groups for one in group["params"])

    def _opens(self, module: Any, _inputs: Any) -> None:
        """A forward of the model begins, unless it is computed again in a backward pass, or frozen targets are made."""
        if in_backward() or (module is not self.model and not torch.is_grad_enabled() and _is_frozen(module)):
            return
        self.forward_begins()
        if not torch.is_grad_enabled() and self.model.training and is_first_of_two():
            self._recorder.forward_begins()

    def _structure_changes(self) -> None:
        self.structure_version += 1

    def _tell_order(self) -> None:
        self._facts.facts.step_ends(self.course.passes)
        for ranks in self._ranks:
            ranks.step_ends()
        if not self._knows_order:
            self._trace.finish()
        if self._trace.is_complete and not self._knows_order:
            self._knows_order = True
            self._structure_changes()

    def _register_if_visible(self, module: Any, hook: Any) -> Any:
        """The handle of a forward hook that sees keyword arguments among the inputs; of nothing on a hidden module."""
        if not self._places.is_visible(module):
            return Several(())
        return self._places.hooked(module).register_forward_hook(
            Hook(lambda one, inputs, options, output: hook(one, (inputs, options), output)), with_kwargs=True
        )

    def _look(self) -> None:
        """Takes in what joined since: parameters of lazy layers, modules that were put in later."""
        if self._tracer is not None:
            self._tracer.rest()
        self._facts.facts.before_step()
        for ranks in self._ranks:
            ranks.before_step()
        total = 0
        for optimizer in self.view.optimizers:
            for group in optimizer.param_groups:
                total += len(group["params"])
        self._looks += 1
        is_due = not self._looks % _LOOK_EVERY and self._places.has_changed()
        if is_due or (len(self._named), total) != self._counts:
            self._take_in_what_changed(total)

    def _take_in_what_changed(self, total: int) -> None:
        """Looks at all modules and parameters anew; the optimizers have so many parameters together."""
        self._named = dict(parameters_of(self.model))
        changed = self._places.look() if self._places.has_changed() else frozenset()
        sites, names = choose_sites(self._modules, list(self._named), self._recorder.config, is_late=True)
        self.view.exchange((name, self._named[name]) for name in names)
        self.view.add((name, self._named[name]) for name in names)
        if self._counts != (-1, -1):
            self.structure_version += 1
        if changed:
            self._take_in(sites, changed)
        self._counts = (len(self._named), total)

    def _take_in(self, sites: Sequence[str], changed: Collection[str]) -> None:
        """Hooks go on modules that are new, and off those that are gone; the next forward tells who feeds whom."""
        for site in changed:
            self._hooks.pop(site, None)
        self._watch([site for site in sites if site not in changed])
        self._watch(sites)
        self._watch_inside(sites)
        self._facts.modules_changed()
        self._trace.stop()
        self._trace, self._knows_order = self._traced(), False
        named: list[Json] = [*sorted(changed)[:_MOST_NAMED]]
        self._recorder.event("modules_changed", sites=named, count=len(changed))

    def _traced(self) -> CallTrace:
        return CallTrace(self._modules, ACCESS, self._register_if_visible)

    def _report(self, site: str, reason: str) -> None:
        self._recorder.event("monitor_fault", site, collector="gradient", error=reason)


def _is_frozen(module: Any) -> bool:
    return not any(parameter.requires_grad for parameter in module.parameters())
