"""Tells apart the losses of a program whose networks are trained by optimizers of their own: one series for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from os.path import commonprefix
from typing import Any, Final

from ....storage.records import Json
from ...late_scalars import LateScalar, late_sum
from ...recording.recorder import Recorder
from ..step_lifecycle import StepLifecycle
from .torch_parameters import TorchView

#: Parameters of an optimizer that show whether a backward pass has reached it; evenly spread. Our choice.
_MOST_PROBES: Final = 6
#: Networks that the name of a learner lists.
_MOST_NAMED: Final = 3
#: Backward passes of which it is kept what they reached.
_MOST_PASSES: Final = 64
#: Steps in a row that must use the gradients of another learner's pass before it is told. Our choice.
_IN_A_ROW: Final = 3
#: Optimizers that a float can tell apart by a bit each.
_MOST_BITS: Final = 52


@dataclass(slots=True)
class _Stepper:
    """One optimizer: parameters that show what reaches it, and the backward passes that its next step will use.

    Attributes:
        mixed: Steps in a row that used, beside a pass of its own, one by which another optimizer had stepped before.
    """

    optimizer: Any
    probes: tuple[Any, ...]
    marks: list[tuple[int, int]] = field(default_factory=list)
    passes: list[tuple[int, float | LateScalar | None]] = field(default_factory=list)
    mixed: int = 0

    def look(self) -> list[tuple[int, int]]:
        """Return what changes when a gradient is added to a probe: which tensor it is, and its version."""
        return [
            (0, 0) if (gradient := probe.grad) is None else (id(gradient), gradient._version) for probe in self.probes
        ]


class Learners:
    """The learners of one model: a loss that is differentiated, and the optimizers that step what it reaches.

    Optimizers that step after the same backward passes share a loss, and are one learner. Where there are several
    learners, each has the scalar `<name>/loss`: the sum of the values that its backward passes started from, since its
    gradients were cleared. A single learner has none beside `loss`.

    Attributes:
        entered: Ids of the optimizers whose parameters a pass of another learner has reached.
        changed: Called when there are other learners than before.
        turned: Called at the end of a step with its number and the ids of the optimizers that stepped.
    """

    def __init__(self, recorder: Recorder, view: TorchView, lifecycle: StepLifecycle) -> None:
        self._recorder, self._view, self._passes = recorder, view, lifecycle.passes
        lifecycle.note_step = self.stepped
        self._steppers: dict[int, _Stepper] = {}
        self._used: dict[int, list[tuple[int, float | LateScalar | None]]] = {}
        self._count, self._ended = 0, -1
        self._is_opened = True
        self._groups: dict[frozenset[int], str] = {}
        self._has_several = False
        self._ever: set[frozenset[int]] = set()
        self._newest: frozenset[int] = frozenset()
        self._told: list[Json] = []
        self._reached: dict[int, set[int]] = {}
        self._spent: dict[int, tuple[int, Any]] = {}
        self.entered: set[int] = set()
        self.turned: Callable[[int, frozenset[int]], None] = lambda _step, _stepped: None
        self.changed: Callable[[], None] = lambda: None

    def backward_begins(self, *, is_opened: bool = True) -> None:
        """Note the gradients that are there, and drop passes whose gradients have been cleared.

        In steps that were not seen since, they may have been cleared without a sign.

        Args:
            is_opened: Whether a forward of the model was seen before, so that the lifecycle has counted the pass.
        """
        optimizers = self._view.optimizers
        if len(optimizers) < 2:
            return
        self._is_opened = is_opened
        cleared = self._passes.cleared if is_opened else {id(one) for one in optimizers if self._view.is_cleared(one)}
        step = self._recorder.current.step
        if step > self._ended + 1:
            self._ended = step - 1
            for stepper in self._steppers.values():
                stepper.passes.clear()
        for optimizer in optimizers:
            stepper = self._steppers.get(id(optimizer)) or self._add(optimizer)
            if id(optimizer) in cleared:
                stepper.passes.clear()
            stepper.marks = stepper.look()

    def backward_ends(self, loss: float | LateScalar | None, *, unopened: float | LateScalar | None = None) -> None:
        """Count the pass, and its loss, for the optimizers whose gradients have changed since it began.

        Args:
            unopened: The loss of a pass without a forward that was seen, as of `model.forward(x)`.
        """
        loss = loss if self._is_opened else unopened
        self._count += 1
        for stepper in self._steppers.values():
            if stepper.marks and stepper.look() != stepper.marks:
                stepper.passes.append((self._count, loss))
                self._reached.setdefault(self._count, set()).add(id(stepper.optimizer))
            stepper.marks = []

    def stepped(self, optimizer: Any) -> None:
        """Note that the optimizer has used its gradients."""
        stepper = self._steppers.get(id(optimizer))
        if stepper is not None:
            self._tell_of_mixed(stepper)
            self._used[id(optimizer)], stepper.passes = stepper.passes, []
            self._spent.update((number, (self._count, optimizer)) for number, _ in self._used[id(optimizer)])
            while len(self._spent) > _MOST_PASSES:
                del self._spent[next(iter(self._spent))]

    def _tell_of_mixed(self, stepper: _Stepper) -> None:
        """Record, once, that an optimizer keeps stepping by gradients of a pass that another has used before its own.

        So the generator's step does if its gradients are cleared before the critic's pass, and not behind it.
        """
        newest = stepper.passes[-1][0] if stepper.passes else 0
        spent = (self._spent[number] for number, _ in stepper.passes if number in self._spent)
        others = [one for when, one in spent if when < newest and one is not stepper.optimizer]
        stepper.mixed = stepper.mixed + 1 if others else 0
        if stepper.mixed == _IN_A_ROW:
            name, other = self.name_of(stepper.optimizer), self.name_of(others[0])
            self._recorder.event("gradient_of_another", name, other=other)

    def step_ends(self) -> None:
        """Record the loss of every learner that has stepped, if there are several."""
        used, self._used = self._used, {}
        self._ended = self._recorder.current.step
        self.turned(self._recorder.current.step, frozenset(used))
        self._tell_of_resting(used)
        learners: dict[tuple[int, ...], list[int]] = {}
        for optimizer, passes in used.items():
            if passes:
                learners.setdefault(tuple([number for number, _ in passes]), []).append(optimizer)
        if not learners:
            return
        groups = {passes: frozenset(optimizers) for passes, optimizers in learners.items()}
        is_known = all(group in self._groups for group in groups.values())
        if not self._has_several and self._are_several(list(groups.values())):
            is_known, self._has_several = False, True
        if not is_known:
            self._name(groups.values())
        self._note_reach(groups)
        if not self._has_several:
            return
        is_due, draft = "loss" in self._recorder.current.due, self._recorder.draft
        for group in groups.values():
            losses = [loss for number, loss in used[next(iter(group))] if loss is not None]
            if is_due and losses:
                total: float | LateScalar = losses[0]
                for loss in losses[1:]:
                    total = late_sum(total, loss)
                draft.put("loss", f"{self._groups[group]}/loss", total)

    def _tell_of_resting(self, stepped: Mapping[int, object]) -> None:
        """Record which optimizers have stepped, one bit each, if others have not: theirs got no gradient by intent."""
        optimizers = self._view.optimizers
        if 0 < len(stepped) < len(optimizers) <= _MOST_BITS:
            bits = (1 << number for number, one in enumerate(optimizers) if id(one) in stepped)
            self._recorder.log({"learner/stepped": float(sum(bits))})

    def _are_several(self, groups: list[frozenset[int]]) -> bool:
        """Return whether groups of optimizers have losses of their own, and do not only follow upon each other.

        They have if two step in one step, if one steps again after another, or if one steps while another has yet to.
        """
        newest, every = groups[-1], set(map(id, self._view.optimizers))
        if not self._ever and self._recorder.current.step:  # one was alone so far, and has stepped
            self._newest = frozenset(every - newest)
            self._ever.add(self._newest)
        waits = every - set[int]().union(newest, *self._ever)
        returns = newest in self._ever and newest.isdisjoint(self._newest)
        self._ever.update(groups)
        self._newest = newest
        return bool(waits) or returns or any(one.isdisjoint(other) for one in groups for other in groups)

    def _note_reach(self, groups: Mapping[tuple[int, ...], frozenset[int]]) -> None:
        """Note whether a pass of one learner has reached the parameters of another.

        An optimizer that follows another one, as layers are frozen, is the same learner.
        """
        for passes, group in groups.items():
            if self.entered or not self._has_several:
                break
            reached = set[int]().union(*(self._reached.get(number, set()) for number in passes)) - group
            self.entered |= {one for other in self._groups if other != group for one in reached & other}
            if self.entered:
                self.changed()
        if len(self._reached) > _MOST_PASSES:
            self._reached.clear()

    def _add(self, optimizer: Any) -> _Stepper:
        mine = {id(parameter) for parameter in self._view.parameters}
        held = [one for group in optimizer.param_groups for one in group["params"] if id(one) in mine]
        stride = max(1, len(held) // _MOST_PROBES)
        stepper = self._steppers[id(optimizer)] = _Stepper(optimizer, tuple(held[::stride]))
        return stepper

    def _name(self, groups: Any) -> None:
        """Name new groups of optimizers after what they step, and tell of the learners there are now."""
        for group in groups:
            if group not in self._groups:
                name, others = self._name_of(group), set(self._groups.values())
                self._groups[group] = name if name not in others else f"{name}/{len(self._groups)}"
        numbers = {id(optimizer): number for number, optimizer in enumerate(self._view.optimizers)}
        told: list[Json] = [
            {"name": name, "optimizers": [*sorted(numbers[one] for one in group if one in numbers)]}
            for group, name in self._groups.items()
        ]
        if self._has_several and told != self._told:
            self._told = told
            self._recorder.event("learners", learners=told)
            self.changed()

    def name_of(self, optimizer: Any) -> str:
        """Return the outermost site of all that this optimizer steps."""
        return self._name_of(frozenset((id(optimizer),)))

    def _name_of(self, group: frozenset[int]) -> str:
        """Return the outermost site that holds all that these optimizers step and nothing that others do.

        Without such a site, the networks that they step.
        """
        mine, others = list[list[str]](), list[list[str]]()
        groups = [part for optimizer in group for part in self._steppers[optimizer].optimizer.param_groups]
        held = {id(one) for part in groups for one in part["params"]}
        for name, parameter in zip(self._view.names, self._view.parameters, strict=True):
            (mine if id(parameter) in held else others).append(name.split(".")[:-1])
        common = commonprefix(mine)  # noqa: RUF071  of lists, part by part
        for length in range(1, len(common)):
            if all(parts[:length] != common[:length] for parts in others):
                common = common[:length]
                break
        heads = dict.fromkeys(chain.from_iterable(parts[:1] for parts in mine))
        return ".".join(common) or "+".join(list(heads)[:_MOST_NAMED]) or "model"
