"""Names the parameters that a loss reaches at two steps while no optimizer of the process holds them."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch.optim import Optimizer

from ....garbage import objects_of
from ...checks.check_result import CheckResult
from ...checks.copied_networks import shapes_of
from ...checks.loss_terms import LossTerms
from ...checks.reached_parameters import ReachedLeaves, all_are_stepped, leaves_of, stepped_result
from .torch_networks import ids_of, networks_holding, parameter_ids, tensors_in_sight


class ReachedParameters:
    """The leaves of the losses of two steps.

    Networks that are left alone on purpose are not told: copies of a trained one, which follow it in their own way, and
    networks in evaluation mode, such as one that judges pictures.

    Args:
        model: The watched model, of whose own parameters another rule tells where one optimizer steps them: of several,
            each step records the gradients of those that step.
        optimizers: The watched ones.
    """

    def __init__(self, model: torch.nn.Module, optimizers: Callable[[], Iterable[Optimizer]]) -> None:
        self._model, self._optimizers = model, optimizers
        self._reached: dict[int, torch.Tensor] = {}
        self._coordinates: set[int] = set()
        self._earlier, self._terms = ReachedLeaves(), LossTerms()

    def read(self, root: torch.Tensor) -> None:
        """Add the leaves of a loss whose backward pass begins."""
        self._reached.update((id(leaf), leaf) for leaf in leaves_of(root))
        steppers = list(self._optimizers())
        if len(steppers) > 1:
            groups = {key: number for number, one in enumerate(steppers) for key in parameter_ids(one)}
            self._terms.read(root, groups)

    def derivative_asked(self, inputs: Iterable[torch.Tensor]) -> None:
        """Take what a differentiable derivative is asked for: coordinates, as those of a boundary, need gradients."""
        self._coordinates.update(map(id, inputs))

    def step_ends(self, *, is_first: bool) -> list[CheckResult]:
        """Return what the step tells: of leaves nothing at the first of the two."""
        said = self._terms.step_ends(self._names())
        return ([] if said is None else [said]) + self._told_of_leaves(is_first=is_first)

    def _names(self) -> dict[int, str]:
        """Return the name of the first network that each optimizer steps."""
        parts = [(name, ids_of(part)) for name, part in self._model.named_children()]
        held = ((number, parameter_ids(one)) for number, one in enumerate(self._optimizers()))
        named = ((number, [name for name, mine in parts if mine & ids]) for number, ids in held)
        return {number: ", ".join(names) for number, names in named if names}

    def _told_of_leaves(self, *, is_first: bool) -> list[CheckResult]:
        reached, self._reached = self._reached, {}
        outside, self._coordinates = self._outside(reached) - self._coordinates, set()
        if is_first:
            self._earlier.keep({key: reached[key] for key in outside})
            return []
        resting = {id(leaf): leaf for leaf in self._earlier.resting(outside)}
        self._earlier.forget()
        found = list(told_of(resting, reached)) if resting else []
        is_stepped = reached and not outside and any(True for _ in self._optimizers())
        return found or ([all_are_stepped(len(reached))] if is_stepped else [])

    def _outside(self, reached: Iterable[int]) -> set[int]:
        """Return the ids of the reached leaves that are neither the watched model's nor any optimizer's."""
        held = [parameter_ids(one) for one in self._optimizers()]
        ids = set(reached).difference(*held)
        if len(held) < 2:
            ids -= ids_of(self._model)
        if ids:
            ids = ids.difference(*map(parameter_ids, objects_of(Optimizer)))
        return ids


def told_of(resting: dict[int, torch.Tensor], reached: Iterable[int]) -> Iterator[CheckResult]:
    """Yield a result for each owner of parameters that have gradients, no optimizer, and the values of before.

    Args:
        resting: These, by id.
        reached: Ids of all parameters with gradients, of which others are stepped.
    """
    trained = list(networks_holding(set(reached) - set(resting)).values())
    shapes = {id(network): shapes_of(network) for network in trained}
    for owner, network in networks_holding(set(resting)).items():
        mine = {name: one for name, one in network.named_parameters() if id(one) in resting}
        for one in mine.values():
            del resting[id(one)]
        is_own, kind = id(network) in shapes, shapes_of(network)
        is_copy = any(kind == other for number, other in shapes.items() if number != id(network))
        is_most = is_own and 2 * len(mine) > len(kind)  # as where a new head is trained
        if network.training and not is_copy and not is_most:
            yield stepped_result(owner, list(mine), sum(one.numel() for one in mine.values()))
    names = {id(leaf): name for name, leaf in tensors_in_sight(set(resting)).items()}
    for key, leaf in resting.items():
        yield stepped_result(names.get(key, "the script"), [f"of shape {tuple(leaf.shape)}"], leaf.numel())
