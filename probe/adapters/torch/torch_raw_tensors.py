"""Finds the tensors that a script trains without any module, and names them as the script's variables do.

An optimizer that holds them tells at the first backward pass. Where the script moves them itself, the second pass
tells: the tensors of the first are there again, with other values. The first step is then repeated on copies, so that
it is recorded as well.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import torch

from ....garbage import objects_of
from ...checks.reached_parameters import all_leaves
from .torch_networks import KnownOptimizers, Program, TrainedModel, held_by, names_of_tensors

_log = logging.getLogger(__name__)
#: Tensors that are named; elements that are copied to repeat a step. Our choice.
_MOST_NAMED: Final = 3
_MOST_COPIED: Final = 1 << 22
#: Backward passes after which tensors that nothing moves are no training, or one that misses its steps.
MOST_PASSES: Final = 20
#: How far an update may be from a multiple of the gradient, where the script makes new tensors of the old ones.
_TOLERANCE: Final = 1e-3


@dataclass(slots=True)
class _Seen:
    """The tensors of a backward pass: themselves, and as they were before it.

    Attributes:
        losses: The values of the passes since they moved last.
        passes: How many those are.
    """

    tensors: dict[str, torch.Tensor]
    before: dict[str, torch.Tensor]
    losses: list[float] = field(default_factory=list)
    passes: int = 0


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step that was over before it was known that the tensors are trained.

    Args:
        trained: Copies of the tensors before the step, with its gradients, as a model.
        tensors: The tensors themselves, moved by the step, by name.
        loss: What its backward passes started from.
    """

    trained: TrainedModel
    tensors: Mapping[str, torch.Tensor]
    loss: float | None

    @property
    def model(self) -> Program:
        """The copies, as a model."""
        assert isinstance(self.trained.model, Program)
        return self.trained.model


class RawTensors:
    """Follows the backward passes of a script of which no trained module is seen.

    Args:
        optimizers: All that the script makes.
    """

    def __init__(self, optimizers: KnownOptimizers) -> None:
        self._optimizers = optimizers
        self._seen: _Seen | None = None
        self._passes = 0
        self._of_modules: frozenset[int] = frozenset()  # optimizers that hold parameters of a module, by id

    def held(self, leaves: Callable[[], Iterable[torch.Tensor]]) -> TrainedModel | None:
        """Return the tensors that optimizers hold and this pass reaches; None if a module has any of them.

        Args:
            leaves: Finds what the pass reaches.
        """
        known = tuple(self._optimizers)
        held = {id(one): one for one in held_by(known)}
        if not held or self._of_modules == frozenset(map(id, known)) or not all(one.is_leaf for one in held.values()):
            return None
        if not any(id(leaf) in held for leaf in leaves()):
            return None
        if _ids_of_modules() & held.keys():
            self._of_modules = frozenset(map(id, known))
            return None
        program = Program({}, named(held.values()))
        return TrainedModel(program, known if len(known) > 1 else (), is_called_unseen=True)

    def has_placeholders_only(self, leaves: Callable[[], Iterable[torch.Tensor]]) -> bool:
        """Return whether all optimizers hold tensors of no module, which this pass does not reach either.

        Args:
            leaves: Finds what the pass reaches.
        """
        known = tuple(self._optimizers)
        held = set(map(id, held_by(known)))
        if not held:
            return not known
        if self._of_modules == frozenset(map(id, known)) or any(id(leaf) in held for leaf in leaves()):
            return False
        if _ids_of_modules() & held:
            self._of_modules = frozenset(map(id, known))
            return False
        return True

    def pass_begins(self, roots: object, leaves: Callable[[], Iterable[torch.Tensor]]) -> FirstStep | None:
        """Return the step before this pass if the script has moved the tensors of it since; else remember them."""
        if self._passes >= 2 * MOST_PASSES or any(True for _ in self._optimizers):
            return None
        self._passes += 1
        reached = {id(leaf): leaf for leaf in leaves() if leaf.is_floating_point()}
        if not reached or sum(leaf.numel() for leaf in reached.values()) > _MOST_COPIED:
            return None
        if _ids_of_modules() & reached.keys():
            return None
        seen = self._seen
        is_known = seen is not None and {id(one) for one in seen.tensors.values()} == reached.keys()
        now = seen.tensors if seen is not None and is_known else named(reached.values())
        if seen is not None and _have_moved(seen, now):
            self._seen = None
            return _first_step(seen, now)
        if seen is None or not is_known:
            seen = self._seen = _Seen(now, {name: _copy(one) for name, one in now.items()})
        seen.losses += [float(root.detach()) for root in tensors_in(roots) if root.numel() == 1]
        seen.passes += 1
        if seen.passes == MOST_PASSES:
            _log.warning("%s", self.unmoved())
        return None

    def pass_ends(self, inputs: object = None, gradients: object = None) -> None:
        """Copy the gradients of the remembered tensors: those that were asked for, else what was added to theirs."""
        if self._seen is None:
            return
        given = {id(one): gradient for one, gradient in zip(tensors_in(inputs), tensors_in(gradients), strict=False)}
        for name, copied in self._seen.before.items():
            one = self._seen.tensors[name]
            gradient = given.get(id(one), one.grad)
            copied.grad = None if gradient is None else gradient.detach().clone()

    def forget(self) -> None:
        """Keep no tensor of the script."""
        self._seen, self._passes = None, 2 * MOST_PASSES

    def unmoved(self) -> str:
        """Return what was seen of tensors that nothing moves; empty where too little was."""
        if self._seen is None or self._seen.passes < MOST_PASSES:
            return ""
        return (
            f"{MOST_PASSES} backward passes reached {listed(self._seen.tensors)}, which no Module holds, and nothing "
            "moved them: neither an optimizer nor the script itself. Nothing was recorded; call optimizer.step() after "
            "backward(), or subtract the gradient from .data"
        )


def leaves_of(roots: object) -> Iterator[torch.Tensor]:
    """Yield the tensors that a backward pass from these roots gives gradients to."""
    return all_leaves([root.grad_fn for root in tensors_in(roots)])


def renew(model: object, roots: object) -> None:
    """Give each name of a list of tensors to the one that the script now calls so, if it makes new ones at every step.

    Args:
        model: The watched one; others than a list of tensors stay as they are.
        roots: What a backward pass starts from, or the tensors for which gradients are asked.
    """
    if not isinstance(model, Program) or not (tensors := model.tensors):
        return
    leaves = {id(leaf): leaf for root in tensors_in(roots) for leaf in ([root] if root.is_leaf else leaves_of(root))}
    if any(id(one) in leaves for one in tensors.values()):
        return
    now = named(leaves.values())
    model.take({name: one for name, one in now.items() if name in tensors and one.shape == tensors[name].shape})


def named(tensors: Iterable[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors by what the script's variables call them; those that none leads to get a number.

    The elements of one collection are named as such, unless each has a variable of its own: the variable of a loop
    only happens to be the last of them.
    """
    several = {id(one): one for one in tensors}
    names = names_of_tensors(set(several))
    inside = [{name.rpartition(".")[0] for name in names.get(key, ()) if "." in name} for key in several]
    shared = set.intersection(*inside) if inside else set()
    has_own = all(any("." not in name for name in names.get(key, ())) for key in several)
    number, found = 0, dict[str, torch.Tensor]()
    for key, one in several.items():
        known = [name for name in names.get(key, ()) if has_own or not shared or name.rpartition(".")[0] in shared]
        name = next((name for name in known if name and name not in found), "")
        while not name or name in found:
            name, number = f"tensor{number}", number + 1
        found[name] = one
    return found


def names_of_loose(tensors: Iterable[torch.Tensor]) -> list[str]:
    """Return the names of those of these tensors that no module holds."""
    inside = _ids_of_modules()
    return [*named(one for one in tensors if id(one) not in inside)]


def listed(names: Iterable[str]) -> str:
    """Return the first names in one line."""
    several = [*names]
    return ", ".join(several[:_MOST_NAMED]) + ", ..." * (len(several) > _MOST_NAMED)


def _ids_of_modules() -> set[int]:
    """Return the ids of the parameters of all modules of the process."""
    modules = (one for one in objects_of(torch.nn.Module) if type(one) is not Program)
    return {id(one) for module in modules for one in module.__dict__.get("_parameters", {}).values()}


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return the tensors that are the value or lie in it."""
    values = value if isinstance(value, list | tuple) else (value,)
    return [one for one in values if isinstance(one, torch.Tensor)]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_()


def _have_moved(seen: _Seen, now: Mapping[str, torch.Tensor]) -> bool:
    """Return whether these are the tensors that were seen, with other values.

    New tensors of the same names count if their difference is a multiple of the gradient: a script may as well look at
    the gradients of several inputs in turn.
    """
    before = seen.before
    if before.keys() != now.keys() or any(before[name].shape != one.shape for name, one in now.items()):
        return False
    moves = [(one.detach() - before[name].detach()).flatten() for name, one in now.items()]
    if not any(bool(move.count_nonzero()) for move in moves):
        return False
    if all(seen.tensors[name] is one for name, one in now.items()):
        return True
    gradients = [copied.grad for copied in before.values()]
    if any(gradient is None for gradient in gradients):
        return False
    move = torch.cat([one.double() for one in moves])
    gradient = torch.cat([one.flatten().double() for one in gradients if one is not None])
    factor = float(move @ gradient / (gradient @ gradient).clamp_min(1e-300))
    return (
        move.numel() > 1 and factor < 0 and float((move - factor * gradient).norm()) <= _TOLERANCE * float(move.norm())
    )


def _first_step(seen: _Seen, now: Mapping[str, torch.Tensor]) -> FirstStep:
    trained = TrainedModel(Program({}, seen.before), is_called_unseen=True)
    return FirstStep(trained, dict(now), sum(seen.losses) if seen.losses else None)
