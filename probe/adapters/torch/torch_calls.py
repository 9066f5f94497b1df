"""Follows, in the two steps of all checks, how often and with what each module is called."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import get_ident
from typing import Any, Final
from weakref import ref

import torch

from ...aside import checking, is_aside
from ...checks.carried_state import CarriedStates
from ...checks.check_result import CheckResult
from ...checks.dropped_outputs import DroppedOutputs
from ...checks.model_call import call_of, outputs_of
from ...checks.module_calls import CallsOfModule, frozen_by_another_name, quiet_networks, uncalled_layers
from ...checks.same_views import Answer, Pair, answer_of, same_views
from ...recording.recorder import Recorder
from .torch_hook_tables import hidden_in
from .torch_hooks import Hook
from .torch_patches import current_graph_task_id, is_first_of_two
from .torch_sites import ModuleSites

#: Modules of a model that are followed, and bytes of inputs and outputs that are kept until the step ends. Our choice.
_MOST_MODULES, _MOST_BYTES = 2000, 1 << 24
#: Calls of one network that are compared, and pairs of them. Our choice.
_MOST_CALLS, _MOST_PAIRS = 4, 8
#: Layers with parameters from which a module is a network.
_FEWEST_LAYERS: Final = 2


class ModuleCalls:
    """The calls of a model's modules in one step, and what they told in an earlier one.

    It has hooks from `arm` to `disarm`. Parts of torch's encoder layers get none: they would leave their fast path.
    """

    def __init__(self, module_sites: ModuleSites, recorder: Recorder) -> None:
        self._module_sites, self._recorder = module_sites, recorder
        self._handles: list[Any] = []
        self._earlier: set[tuple[str, str, str]] = set()
        self._versions: dict[str, int] = {}
        self._forget()

    def _forget(self) -> None:
        self._calls: dict[int, CallsOfModule] = {}
        self._last: dict[int, tuple[ref[torch.Tensor], int]] = {}
        self._networks: dict[int, frozenset[int]] = {}
        self._answers: dict[tuple[int, bool], list[Answer]] = {}
        self._pairs: list[Pair] = []
        self._states = CarriedStates()
        self._given_both: set[int] = set()
        self._dropped = DroppedOutputs()
        self._bytes_left, self._has_derivatives = _MOST_BYTES, False

    def arm(self) -> None:
        """Follow the calls from now on."""
        self._forget()
        modules = list(self._module_sites.modules.values())
        if len(modules) > _MOST_MODULES:
            return
        layers = [each for each in modules if isinstance(each, torch.nn.TransformerEncoderLayer)]
        fast = {id(part) for layer in layers for part in layer.modules()}
        for module in modules:
            if id(module) in fast or not self._module_sites.is_visible(module):
                continue
            inside = list(module.modules())
            if sum(bool(part._parameters) for part in inside) >= _FEWEST_LAYERS:
                self._networks[id(module)] = frozenset(map(id, inside))
            hook = Hook(self._called, self._recorder.guard)
            self._handles.append(hidden_in(module).register_forward_hook(hook, with_kwargs=True))

    def disarm(self) -> None:
        """Remove the hooks, and keep no tensor."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._forget()

    def read(self, root: torch.Tensor) -> None:
        """Look at the graph of a loss whose backward pass begins; calls after it are compared with each other only."""
        self._states.pass_begins()
        for pair in self._pairs:
            if pair.is_taught and pair.is_apart:
                pair.read(root)
        self._dropped.read(root)
        self._answers = {}

    def differentiated(self) -> None:
        """Note that a derivative is trained: such a loss may call a network twice for the same points."""
        self._has_derivatives = True

    def step_ends(self, occasion: int) -> None:
        """Record what the step tells if it is the second, and the first one told the same."""
        if not self._handles:
            return
        with self._recorder.guard.quietly(), checking():
            found = {(site, each.check, each.subject): each for site, each in self._found()}
            for key in sorted(self._earlier & found.keys()):
                self._recorder.event("check", key[0], occasion=occasion, **found[key].data())
            self._earlier = set(found)

    def _found(self) -> Iterator[tuple[str, CheckResult]]:
        modules: Mapping[str, torch.nn.Module] = self._module_sites.modules
        entrances = {id(each) for each in self._module_sites.entrances()}
        yield from uncalled_layers(modules, self._calls)
        for site, result in quiet_networks(modules, self._calls):
            versions = sum(parameter._version for parameter in modules[site].parameters())
            is_written = self._versions.setdefault(site, versions) != versions  # between two looks, as an average is
            yield site, replace(result, outcome="held") if is_written else result
        yield from self._states.results(modules)
        yield from frozen_by_another_name(modules, self._calls, entrances, self._given_both)
        sites = {id(module): site for site, module in modules.items()}
        yield from self._dropped.results(sites)
        if not self._has_derivatives:
            yield from same_views(self._pairs, sites)

    def _called(self, module: Any, arguments: tuple[Any, ...], keywords: Any, output: Any = None) -> None:
        """Count a call; a hook that was removed during the call is still called, and without keywords."""
        if (
            not self._handles
            or is_aside()
            or current_graph_task_id() != -1
            or self._recorder.current.thread != get_ident()
        ):
            return
        is_taught = torch.is_grad_enabled()
        if not is_taught and is_first_of_two():
            return  # a checkpointed forward, which is computed again with gradients
        with self._recorder.guard.quietly(), checking(), torch.no_grad():
            self._count(module, arguments, keywords, output, is_taught)

    def _count(self, module: Any, arguments: Any, keywords: Any, output: Any, is_taught: bool) -> None:
        seen = self._calls.setdefault(id(module), CallsOfModule())
        first: Any = next((each for each in (*arguments, *keywords.values()) if isinstance(each, torch.Tensor)), None)
        if is_taught:
            self._dropped.called(module, first, output)
            seen.taught += 1
            seen.flowing += any(each.requires_grad for each in outputs_of(output))
            if first is not None:
                last, version = self._last.get(id(module), (None, 0))
                is_last = last is not None and last() is first
                seen.again += is_last and first._version == version
                self._last[id(module)] = (ref(first), first._version)
            self._states.called(module, arguments, keywords, output)
        else:
            seen.quiet += 1
        if id(module) in self._networks and module.training:
            self._compare(module, arguments, keywords, output, is_taught)

    def _compare(self, module: Any, arguments: Any, keywords: Any, output: Any, is_taught: bool) -> None:
        """Keep the call of a network, and compare it with earlier ones."""
        call = call_of(module, arguments, keywords)
        for pair in self._pairs:
            if pair.module is not module and id(pair.module) in self._networks[id(module)]:
                pair.called_inside(call)
        earlier = self._answers.setdefault((id(module), is_taught), [])
        if len(earlier) >= _MOST_CALLS or len(self._pairs) >= _MOST_PAIRS:
            return
        answer = answer_of(module, call, list(outputs_of(output)), self._bytes_left)
        if answer is None:
            return
        kept = (*answer.inputs.values(), *answer.outputs)
        self._bytes_left -= sum(tensor.numel() * tensor.element_size() for tensor, _ in kept)
        twin = next((each for each in earlier if each.is_like(answer)), None)
        if twin is not None and (answer.nodes or not is_taught):
            self._pairs.append(Pair(module, twin, answer, is_taught))
        if any(each.is_like(answer) for each in self._answers.get((id(module), not is_taught), ())):
            self._given_both.add(id(module))
        earlier.append(answer)
