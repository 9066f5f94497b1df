"""Puts hooks on the modules of a torch model that are watched, on its entrances and on its parameters."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from typing import Any

from ...hooks.idle_hooks import OF_MODULES, Put, RestingHooks, Several, SiteHooks
from ...hooks.input_hooks import InputHooks
from ...hooks.output_hooks import OutputHooks
from ...hooks.parameter_hooks import watch_local_gradients, watch_micro_batches
from ...recording.recorder import Recorder
from .torch_evaluation import EvaluatedData, EvaluationBegins
from .torch_hook_tables import hidden_in
from .torch_hooks import ForwardHandle, Hook, OpeningHook, OutputHook
from .torch_quantities import watch_quantities
from .torch_sites import ModuleSites
from .torch_tensors import ACCESS


class TorchModuleHooks:
    """Puts hooks on modules that the configuration picks, as far as their calls are seen.

    Args:
        model: The whole one.

    Attributes:
        sees_inputs: Whether there are hooks before the modules, too.
    """

    def __init__(self, recorder: Recorder, module_sites: ModuleSites, output_hooks: OutputHooks, model: Any) -> None:
        self._recorder, self._module_sites, self._output_hooks, self._model = (
            recorder,
            module_sites,
            output_hooks,
            model,
        )
        self._inputs = InputHooks(recorder, ACCESS, output_hooks.counts)
        self.sees_inputs = self._inputs.is_wanted
        self._handles: dict[str, ForwardHandle] = {}
        self._sites = SiteHooks(recorder, self._register, self._is_ours_alone)
        self._inside: list[Any] = []

    def begin(self, sites: Sequence[str]) -> None:
        """Watch these sites, at the steps at which anything of theirs is due."""
        self.watch(sites)
        self._recorder.due.subscribe(self._sites.follow, of=OF_MODULES)

    def watch(self, sites: Sequence[str]) -> None:
        """Watch these sites, and no others."""
        self._sites.watch(site for site in sites if self._module_sites.is_visible(self._module_sites.modules[site]))

    def watch_inside(self, sites: Sequence[str], named: Mapping[str, Any]) -> None:
        """Register the hooks on single parameters, and on modules of a kind of their own.

        Args:
            named: All parameters by their sites.
        """
        for handle in self._inside:
            handle.remove()
        recorder, module_sites, counts = self._recorder, self._module_sites, self._output_hooks.counts
        seen = [site for site in sites if module_sites.is_visible(module_sites.modules[site])]
        self._inside = [
            *watch_local_gradients(named.items(), ACCESS, recorder),
            *watch_micro_batches(named.items(), ACCESS, recorder),
            *watch_quantities(recorder, counts, module_sites.modules, seen, module_sites.hooked, self._is_ours_alone),
        ]

    def exchange(self, sites: Sequence[str], changed: Collection[str], named: Mapping[str, Any]) -> None:
        """Register hooks on modules that are new, and remove those of modules that are gone.

        Args:
            changed: Sites where there is another module than before, or none.
        """
        for site in changed:
            self._handles.pop(site, None)
        self.watch([site for site in sites if site not in changed])
        self.watch(sites)
        self.watch_inside(sites, named)

    def remove(self) -> None:
        """Remove all hooks for good."""
        for handle in (self._sites, *self._inside):
            handle.remove()
        self._inside = []

    def _register(self, site: str, is_again: bool) -> Any:
        """Register the hooks of a site; again, they come before those that others have registered since."""
        if is_again:  # which is only where there is one
            return self._handles[site].put_back()
        module = hidden_in(self._module_sites.hooked(self._module_sites.modules[site]))
        after = self._handles[site] = ForwardHandle(module, OutputHook(self._output_hooks, site, self._model))
        if not self.sees_inputs:
            return after
        return Several(
            [
                after,
                module.register_forward_pre_hook(Hook(self._inputs.hook(site), self._recorder.guard), with_kwargs=True),
            ]
        )

    def _is_ours_alone(self, site: str) -> bool:
        """Return whether hooks can be removed and registered again without another order or a recompilation."""
        if self._module_sites.is_compiled or self.sees_inputs:
            return False
        hooks = self._module_sites.hooked(self._module_sites.modules[site])._forward_hooks
        return all(map(isinstance, hooks.values(), repeat(Hook)))


def watch_entrances(
    recorder: Recorder,
    module_sites: ModuleSites,
    opening: OpeningHook,
    batches: Callable[..., None] | None,
    *,
    may_rest: bool,
) -> Several:
    """Return the hooks before modules whose calls are forwards of the model; they rest in long idle phases.

    They come back as one of the modules is put into evaluation mode: what an evaluation gets is worth more than what
    two hooks cost until the next recorded step.

    Args:
        opening: Comes first.
        batches: Sees what the model is called with; None for nobody.
        may_rest: False where hooks of ours on the same modules stay on, which these must come before.
    """
    entrances, due = [*module_sites.entrances()], recorder.due
    hooks: list[tuple[Hook, bool]] = [(opening, True)]
    if batches is not None:
        hooks.append((Hook(batches if len(entrances) == 1 else _of_data(batches), recorder.guard), True))
    resting = RestingHooks(
        [_put(entrance, hook, has_keywords) for entrance in entrances for hook, has_keywords in hooks],
        is_needed=lambda: not due.is_idle_for_long,
        rests=lambda: due.is_idle_for_long,
        may_rest=lambda: may_rest and not module_sites.is_compiled and _are_ours_alone(entrances),
    )
    due.subscribe(resting.follow, of=frozenset())
    data = EvaluatedData(recorder)

    def evaluation_begins() -> None:
        resting.wake()
        data.look()

    return Several([EvaluationBegins(entrances, evaluation_begins, recorder.guard), resting])


def _of_data(batches: Callable[..., None]) -> Callable[..., None]:
    """Return the hook for networks that are called one after the other: what one gives the next is no batch."""

    def see(module: Any, inputs: Any, keywords: Mapping[str, Any]) -> None:
        is_made = any(getattr(value, "grad_fn", None) is not None for value in (*inputs, *keywords.values()))
        if not is_made:
            batches(module, inputs, keywords)

    return see


def _put(entrance: Any, hook: Hook, has_keywords: bool) -> Put:
    return lambda is_again: hidden_in(entrance).register_forward_pre_hook(
        hook, with_kwargs=has_keywords, prepend=is_again
    )


def _are_ours_alone(modules: Sequence[Any]) -> bool:
    """Return whether nobody else has hooks before these modules."""
    return all(isinstance(hook, Hook) for module in modules for hook in module._forward_pre_hooks.values())
