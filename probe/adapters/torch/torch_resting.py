"""Looks, at some steps, at networks that a torch training calls and does not train: target networks and teachers."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any
from weakref import ref

import torch
from torch.optim import Optimizer

from ....garbage import objects_of
from ...aside import checking, is_aside
from ...checks.check_result import CheckResult
from ...checks.copied_networks import LONG, CopyHistory, pairs_of, sample_of, statistics_of
from ...checks.next_states import NextStates
from ...checks.resting_inputs import RestingInputs, first_norm
from ...checks.resting_mode import RestingMode
from ...guard import Guard
from ...recording.recorder import Recorder
from .torch_hooks import Hook
from .torch_loaded_states import of_which_nothing_was_loaded
from .torch_networks import Program, names_of, outermost, parameter_ids
from .torch_sites import takes_hooks

#: Copies that are followed, and parameters of one: more of either is no pair of small networks that are easily read.
_MOST_COPIES, _MOST_PARAMETERS = 8, 2000
#: Other networks whose mode is asked for; a notebook may keep those of trainings before.
_MOST_OTHERS = 64
#: The first step at whose end both are looked at for the training's end: what is told of them there is of longer ones.
_FIRST_GLANCE = LONG // 4


class RestingNetworks:
    """The networks that no optimizer steps: those that are copies of a trained one, and others.

    Args:
        modules: The watched model's modules, by site.
        optimizers: The watched ones.
        is_alone: Whether nothing else is trained, so that what other optimizers hold rests as well.

    Attributes:
        copied: Called with each network that has a copy which no optimizer holds.
    """

    def __init__(
        self,
        modules: Mapping[str, torch.nn.Module],
        optimizers: Callable[[], Iterable[Optimizer]],
        guard: Guard,
        *,
        is_alone: bool = False,
    ) -> None:
        self._modules, self._optimizers, self._guard, self._is_alone = modules, optimizers, guard, is_alone
        self._pairs: list[_Pair] | None = None
        self._others: list[_Other] = []
        self._handles: list[Any] = []
        self.copied: Callable[[torch.nn.Module], None] = lambda _: None
        self.glances = CopyGlances(self._glance, guard)

    def arm(self, answered: Callable[[Any], None]) -> None:
        """Keep what the networks are as a step ends, and note whether the copies are called in the next one.

        Args:
            answered: Called with what a copy answers in that step.
        """
        if self._pairs is None:
            self._pairs = list(self._found())
        for pair in self._pairs:
            self._handles += pair.arm(answered, self._guard)
        for other in self._others:
            self._handles += other.arm(self._guard)

    def forward_begins(self) -> None:
        """Keep what the networks are as a step begins."""
        for pair in self._pairs or ():
            pair.begin()

    def disarm(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def step_ends(self) -> Iterator[CheckResult]:
        """Yield what the looks so far tell."""
        pairs = self._pairs or ()
        for each in (*pairs, *self._others):
            others = [pair for pair in pairs if pair is not each]
            yield from (one for one in each.look() if "alike" not in one.numbers or not any(p.lags for p in others))
        yield from of_which_nothing_was_loaded(lambda network: names_of([network], self._modules)[id(network)])

    def training_ends(self, recorder: Recorder, occasion: int, error: BaseException | None) -> None:
        """Record what is known of the copies as a training ends that does not fail."""
        with self._guard.quietly(), checking(), torch.no_grad():
            for pair in () if error is not None else self._pairs or ():
                for result in pair.end(recorder.current.step):
                    recorder.event("check", "", occasion=occasion, **result.data())

    def _glance(self, step: int) -> None:
        for pair in self._pairs or ():
            pair.glance(step)

    def _found(self) -> "Iterator[_Pair]":
        objects = objects_of(torch.nn.Module, Optimizer)
        others = () if self._is_alone else (one for one in objects if isinstance(one, Optimizer))
        steppers = chain(self._optimizers(), others)
        held = set[int]().union(*map(parameter_ids, steppers))
        if not held:
            return
        objects = [one for one in objects if isinstance(one, torch.nn.Module) and takes_hooks(one)]
        modules = [one for one in objects if type(one) is not Program]
        resting = outermost([one for one in modules if _is_resting(one, held)])
        self._note_others(self._trained_before(modules, resting), is_resting=False)
        if not resting:
            return
        trained = [one for one in modules if _is_trained(one, held)]
        names = names_of([*resting, *trained], self._modules)
        pairs = list(pairs_of(resting, trained))
        copies = {copy for copy, _ in pairs}
        alone = [network for number, network in enumerate(resting) if number not in copies]
        self._note_others(alone, is_resting=True)
        for copy, network in pairs[:_MOST_COPIES]:
            self.copied(trained[network])
            yield _Pair(resting[copy], trained[network], names[id(resting[copy])], names[id(trained[network])])

    def _trained_before(
        self, modules: Iterable[torch.nn.Module], resting: Iterable[torch.nn.Module]
    ) -> list[torch.nn.Module]:
        """Return networks with batch norms that another optimizer holds, as that of a training before this one."""
        mine = set[int]().union(*map(parameter_ids, self._optimizers()))
        known = {id(one) for one in resting}
        others = outermost([one for one in modules if _is_resting(one, mine)])
        return [one for one in others if id(one) not in known and first_norm(one) is not None]

    def _note_others(self, networks: list[torch.nn.Module], *, is_resting: bool) -> None:
        names = names_of(networks, self._modules)
        self._others += [_Other(one, names[id(one)], is_resting=is_resting) for one in networks[:_MOST_OTHERS]]


class CopyGlances:
    """Looks at the copies as steps end, ever more rarely: as the training ends, the function that made them is over.

    Attributes:
        wants_end_of: The first step whose end `step_ends` must be told.
    """

    def __init__(self, glance: Callable[[int], None], guard: Guard) -> None:
        self._glances, self._guard = [glance], guard
        self.wants_end_of = _FIRST_GLANCE

    def join(self, glance: Callable[[int], None]) -> None:
        """Let another one look at the same steps."""
        self._glances.append(glance)

    def step_ends(self, step: int) -> None:
        """Look, and wait for a twentieth of the steps so far."""
        self.wants_end_of = step + step // 20 + 1
        with self._guard.quietly(), checking(), torch.no_grad():
            for glance in self._glances:
                glance(step)

    def remove(self) -> None:
        """Look no more."""
        self.wants_end_of = sys.maxsize


class _Pair:
    """A copy and its network, neither of which is kept alive."""

    def __init__(self, copy: torch.nn.Module, network: torch.nn.Module, copy_name: str, network_name: str) -> None:
        self._copy, self._network = ref(copy), ref(network)
        self._history = CopyHistory(copy_name, network_name, sample_of(copy), sample_of(network))
        self._ended: torch.Tensor | None = None
        self._begun: tuple[torch.Tensor, torch.Tensor] | None = None
        self._is_called = self._is_frozen = self._is_asked = False
        self._next = NextStates(copy_name, network_name)
        self._newest: tuple[torch.Tensor, torch.Tensor, int] | None = None
        self._statistics: tuple[torch.Tensor | None, torch.Tensor | None] = None, None

    @property
    def lags(self) -> bool:
        """Whether the copy is a slow one."""
        return self._history.lags

    def arm(self, answered: Callable[[Any], None], guard: Guard) -> list[Any]:
        copy, network = self._copy(), self._network()
        if copy is None or network is None:
            return []
        self._is_called, self._is_asked, self._begun, self._ended = False, False, None, sample_of(network)
        self._is_frozen = not any(parameter.requires_grad for parameter in copy.parameters())
        note = Hook(self._note, guard)

        def answer(_module: Any, inputs: tuple[Any, ...], output: Any) -> None:
            answered(output)
            if not is_aside() and inputs:
                self._next.copy_called(*inputs)

        def states(_module: Any, inputs: tuple[Any, ...], _output: Any) -> None:
            if not is_aside() and inputs and torch.is_grad_enabled():
                self._next.network_called(*inputs)

        called = [part.register_forward_pre_hook(note) for part in copy.modules() if takes_hooks(part)]
        both = copy.register_forward_hook(Hook(answer, guard)), network.register_forward_hook(Hook(states, guard))
        return [*called, *both]

    def begin(self) -> None:
        copy, network = self._copy(), self._network()
        if self._begun is None and self._ended is not None and copy is not None and network is not None:
            self._begun = sample_of(copy), sample_of(network)

    def look(self) -> Iterator[CheckResult]:
        results = [self._next.step_ends()]
        if self._ended is not None and self._begun is not None:
            called, asked = self._is_called, self._is_asked
            results.append(self._history.look(self._ended, self._begun, is_called=called, is_asked=asked))
        copy, network = self._copy(), self._network()
        if copy is not None and network is not None:
            results.append(self._history.look_at_statistics(statistics_of(copy), statistics_of(network)))
        self._ended = self._begun = None
        yield from (result for result in results if result is not None)

    def end(self, steps: int) -> Iterator[CheckResult]:
        """Yield what both have come to; of those that are gone, as they were seen last."""
        self.glance(steps)
        results = (
            None if self._newest is None else self._history.at_the_end(*self._newest),
            self._history.statistics_at_the_end(*self._statistics),
        )
        yield from (result for result in results if result is not None)

    def glance(self, step: int) -> None:
        copy, network = self._copy(), self._network()
        if copy is not None and network is not None:
            self._newest = sample_of(copy), sample_of(network), step
            self._statistics = statistics_of(copy), statistics_of(network)

    def _note(self, *_: Any) -> None:
        """Note a call, and one through which no gradient comes to the copy."""
        self._is_asked |= not is_aside()
        self._is_called |= not is_aside() and (self._is_frozen or not torch.is_grad_enabled())


class _Other:
    """A network that is no copy of another one, such as a teacher that was trained before.

    Args:
        is_resting: Whether no optimizer of the process holds it, so that its mode tells something.
    """

    def __init__(self, network: torch.nn.Module, name: str, *, is_resting: bool) -> None:
        self._network, self._is_resting = ref(network), is_resting
        self._mode, self._inputs = RestingMode(name), RestingInputs(name)

    def arm(self, guard: Guard) -> list[Any]:
        network = self._network()
        if network is None:
            return []
        norm, hook = first_norm(network), Hook(self._note, guard)
        handles = [network.register_forward_pre_hook(hook)]
        if norm is not None and takes_hooks(norm):
            handles.append(norm.register_forward_pre_hook(Hook(self._note_input, guard)))
        return handles

    def look(self) -> Iterator[CheckResult]:
        looks = (self._mode.look() if self._is_resting else None, self._inputs.look())
        yield from (result for result in looks if result is not None)

    def _note_input(self, norm: torch.nn.Module, inputs: Any) -> None:
        if not is_aside() and not torch.is_grad_enabled() and inputs:
            self._inputs.given(norm, inputs[0])

    def _note(self, network: torch.nn.Module, _inputs: Any) -> None:
        if not is_aside() and not torch.is_grad_enabled():
            self._mode.called(network)


def _is_resting(module: torch.nn.Module, held: set[int]) -> bool:
    """Return whether no optimizer holds any parameter of the module, which has some with values of their own."""
    ids = plain_parameter_ids(module)
    return 1 < len(ids) <= _MOST_PARAMETERS and ids.isdisjoint(held)


def _is_trained(module: torch.nn.Module, held: set[int]) -> bool:
    ids = plain_parameter_ids(module)
    return 1 < len(ids) <= _MOST_PARAMETERS and ids <= held


def plain_parameter_ids(module: torch.nn.Module) -> set[int]:
    """Return the ids of its parameters; none of a module that is being made, or whose values are elsewhere."""
    try:
        parameters = list(module.parameters())
        is_plain = all(type(one) is torch.nn.Parameter and one.is_floating_point() for one in parameters)
    except Exception:  # noqa: BLE001  any module of the process may be met here
        return set()
    return {id(one) for one in parameters} if is_plain else set()
