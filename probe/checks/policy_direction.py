"""Does a step make actions with positive advantage more likely? Read from the gradients of a policy's loss."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...storage.percent import percent
from ..guard import Guard
from .check_result import CheckResult, broken, held
from .loss_graph import is_of_a_choice, origin_of
from .step_direction import DOWNHILL, StepDirection

DIRECTION = "good_actions_become_likelier"
_CLAIM = "a step raises the log-probability of actions whose return was better than the critic expected"
#: Actions below which nothing is said; correlation that shows which factor is the advantage; share of actions.
_FEWEST, _CORRELATED, _SURE = 4, 0.8, 0.9
#: Actions below which the factor must be the advantage itself, since few numbers correlate by chance.
_FEW, _EQUAL = 8, 0.9999
#: Products with a constant that are followed in one backward pass; those of single actions. Our choice.
_MOST_PRODUCTS, _MOST_ACTIONS = 8, 64
#: Relative error within which a single factor is one of the advantages: it may come from Python, in double precision.
_ROUNDING = 1e-4
#: Nodes of losses that are minus the log-probability of a label.
_LABEL_LOSSES = ("NllLoss", "BinaryCrossEntropy")
#: Signs in a row, and nodes around a factor, that are looked at. Our choice.
_DEEPEST, _NEAR = 4, 40


class PolicyDirection:
    """Follows the products of log-probabilities with constants in the backward passes of one step.

    The advantage is known if the same loss fits values to returns: it is return minus value (Sutton et al. 2000,
    "Policy gradient methods", with a baseline). A constant factor that correlates with it is the advantage that the
    training uses; the gradient of its product tells in which direction the log-probability moves. A weighted distance
    is no policy: the other factor must be made of the log-probability of a choice.

    What multiplies the advantage may be any function of the log-probability, such as a ratio of two; so the gradient
    that comes to the log-probability itself is followed as well, where the choice is picked from a table of them.

    Policy and values may have losses of their own, differentiated one after the other in one step. A loop may weigh
    each action by itself and sum the terms; then each factor must be one of the advantages.

    Args:
        guard: Takes what fails during a backward pass.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        self._safely: Callable[..., Any] = guard or (lambda work: work)
        self._advantages: list[torch.Tensor] = []
        self._singles: list[torch.Tensor] = []
        self._factors: list[torch.Tensor] = []
        self._choices: list[torch.Tensor] = []
        self._seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._handles: list[Any] = []

    def follow(
        self,
        nodes: Sequence[Any],
        fits: Sequence[tuple[torch.Tensor, torch.Tensor]],
        direction: StepDirection = DOWNHILL,
    ) -> None:
        """Follow a backward pass that is about to begin.

        Args:
            nodes: The nodes between the loss and the models' outputs.
            fits: Pairs of values and returns that a loss function compared.
            direction: Tells which way steps go.
        """
        self._advantages += [
            (target.detach() - value.detach()).reshape(-1).double()
            for value, target in fits
            if value.numel() == target.numel() >= _FEWEST
        ]
        self._singles += [
            (target.detach() - value.detach()).reshape(1).double()
            for value, target in fits
            if value.numel() == target.numel() == 1
        ]
        self._advantages += [advantage for node in nodes if (advantage := _squared_difference(node)) is not None]
        products = [node for node in nodes if node.name() == "MulBackward0"]
        weighted = [(node, found) for node in products if (found := _weighted_choice(node)) is not None]
        several = [(node, found) for node, found in weighted if found[0].numel() > 1][:_MOST_PRODUCTS]
        single = [(node, found) for node, found in weighted if found[0].numel() == 1][:_MOST_ACTIONS]
        self._handles += [
            node.register_prehook(self._safely(self._hook(factor, sign * direction.sign(node))))
            for node, (factor, sign) in [*several, *single]
        ]
        self._factors += [factor for _, (factor, _) in several]
        picks = [node for node in nodes if node.name().startswith("Gather") and is_of_a_choice(node)]
        self._handles += [
            node.register_prehook(self._safely(self._choice_hook(direction.sign(node))))
            for node in picks[:_MOST_PRODUCTS]
        ]

    def result(self) -> CheckResult | None:
        """Return what the backward pass showed, and stop following it; None if it showed nothing."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for advantage in self._advantages:
            slope, used = torch.zeros_like(advantage), torch.zeros_like(advantage)
            for factor, gradient in self._seen:
                if not factor.numel() == gradient.numel() == advantage.numel():
                    continue
                weight = factor.detach().reshape(-1).double()
                correlation = _correlation(weight, advantage)
                if abs(correlation) > _least(advantage):  # the advantage, shifted, scaled or with another sign
                    slope += weight * gradient.reshape(-1).double()
                    # the loss may take another baseline, so that its weights have other signs than the advantage
                    used += weight if correlation > 0 else -weight
            result = self._of_choices(advantage) or _verdict(slope, used)
            if result is not None:
                return result
        return self._of_single_actions()

    def _of_single_actions(self) -> CheckResult | None:
        """Return what the gradients of actions tell that are weighed one by one, each by its own advantage."""
        if not self._singles:
            return None
        advantages, found = torch.cat(self._singles), []
        for factor, gradient in self._seen:
            weight = factor.detach().reshape(-1).double()
            if weight.numel() != 1 or gradient.numel() != 1:
                continue
            distances = (advantages.abs() - weight.abs()).abs()
            nearest = int(distances.argmin())
            if bool(distances[nearest] <= _ROUNDING * weight.abs()):
                found.append((weight * gradient.reshape(-1).double(), advantages[nearest : nearest + 1]))
        if not found:
            return None
        slopes, taken = zip(*found, strict=True)
        return _verdict(torch.cat(slopes), torch.cat(taken))

    def _of_choices(self, advantage: torch.Tensor) -> CheckResult | None:
        """Return what the gradients of the log-probabilities tell, for the advantage as the loss has it."""
        mine = [gradient for gradient in self._choices if gradient.numel() == advantage.numel()]
        weights = [factor.detach().reshape(-1).double() for factor in self._factors if factor.numel() == len(advantage)]
        used = next((weight for weight in weights if _correlation(weight, advantage) > _least(advantage)), None)
        if not mine or used is None:
            return None
        slopes = torch.stack([gradient.detach().reshape(-1).double() for gradient in mine])
        return _verdict(slopes.sum(0), used)

    def _choice_hook(self, sign: int) -> Any:
        def note(gradients: Sequence[torch.Tensor | None]) -> None:
            if gradients and gradients[0] is not None:
                self._choices.append(sign * gradients[0].detach())

        return note

    def _hook(self, factor: torch.Tensor, sign: int) -> Any:
        def note(gradients: Sequence[torch.Tensor | None]) -> None:
            if gradients and gradients[0] is not None:
                self._seen.append((factor, sign * gradients[0].detach()))

        return note


def _verdict(slope: torch.Tensor, advantage: torch.Tensor) -> CheckResult | None:
    """Return what the slopes of the loss along the log-probabilities tell; None where too few or too mixed."""
    moved = slope != 0
    if int(moved.sum()) < _FEWEST:
        return None
    raised = (slope[moved] < 0) == (advantage[moved] > 0)
    share, count = float(raised.double().mean()), int(moved.sum())
    if share <= 1 - _SURE:
        words = (
            f"a step lowers the log-probability of {percent(1 - share)} of {count} actions that did better than "
            "expected, and raises those that did worse"
        )
        return broken(DIRECTION, _CLAIM, words, share=share, actions=count)
    return held(DIRECTION, _CLAIM, share=share, actions=count) if share >= _SURE else None


def _least(advantage: torch.Tensor) -> float:
    """Return the correlation with the advantage that tells which factor it is."""
    return _CORRELATED if advantage.numel() >= _FEW else _EQUAL


def _correlation(factor: torch.Tensor, advantage: torch.Tensor) -> float:
    """Return the correlation; 0 where there is none."""
    both = torch.stack((factor, advantage))
    if not bool(torch.isfinite(both).all()) or bool((both.std(1) == 0).any()):
        return 0.0
    return float(torch.corrcoef(both)[0, 1])


def _weighted_choice(node: Any) -> tuple[torch.Tensor, int] | None:
    """Return the factor without gradient of a product, and the sign with which the other grows with a log-probability.

    Returns:
        None if both factors have a gradient, one is a number, or the other is not made of a choice's log-probability.
    """
    given = [before for before, _ in node.next_functions]
    if len(given) != 2 or given.count(None) != 1:
        return None
    factor = node._saved_self if given[0] is None else node._saved_other
    if not isinstance(factor, torch.Tensor) or 1 < factor.numel() < _FEWEST:
        return None
    sign = _sign_of_choice(next(before for before in given if before is not None))
    return None if sign == 0 else (factor, sign)


def _sign_of_choice(node: Any) -> int:
    """Return 1 for a log-probability or a ratio, -1 for its negative or a loss of labels, 0 for anything else."""
    sign, is_choice = 1, is_of_a_choice(node)
    for _ in range(_DEEPEST):
        node = origin_of(node)
        if node is None:
            return 0
        inner, factor = _negated(node), -1
        if inner is None:
            inner, factor = _scaled(node)
        if inner is None:
            break
        sign, node = sign * factor, inner
    if node.name().startswith("Pow"):  # of a probability, as a focal loss weighs labels
        return 0
    if node.name().startswith(_LABEL_LOSSES):
        return -sign
    return sign if is_choice or _is_density(node) else 0


def _negated(node: Any) -> Any:
    """Return the node of what this one subtracts from nothing or from a constant; None if it does not."""
    if node.name().startswith(("Neg", "Rsub")):
        return node.next_functions[0][0]
    if node.name() == "SubBackward0" and node.next_functions[0][0] is None:
        return node.next_functions[1][0]
    return None


def _scaled(node: Any) -> tuple[Any, int]:
    """Return the node that constants multiply, and their sign; None and 1 if this does not, 0 for several signs."""
    given = [before for before, _ in node.next_functions]
    if node.name() != "MulBackward0" or len(given) != 2 or given.count(None) != 1:
        return None, 1
    number = node._saved_self if given[0] is None else node._saved_other
    if not isinstance(number, torch.Tensor) or not number.numel():
        return None, 1
    low, high = (float(one) for one in number.detach().aminmax())
    return given[0] or given[1], 1 if low >= 0 else -1 if high <= 0 else 0


def _is_density(node: Any) -> bool:
    """Return whether a logarithm of a density is near: minus the square of a constant minus a mean, or minus a loss."""
    waiting = [node]
    for each in waiting:
        inner = each.next_functions[0][0] if each.name() == "NegBackward0" else None
        if inner is not None and (inner.name().startswith(_LABEL_LOSSES) or _squared_difference(inner) is not None):
            return True
        if len(waiting) < _NEAR:
            waiting += [before for before, _ in each.next_functions if before is not None]
    return False


def _squared_difference(node: Any) -> torch.Tensor | None:
    """Return constant minus value where a node squares their difference; None for others."""
    if node.name() != "PowBackward0" or not node.next_functions or node._saved_exponent != 2:
        return None
    difference = node.next_functions[0][0]
    if difference is None or difference.name() != "SubBackward0":
        return None
    given = [before for before, _ in difference.next_functions]
    if len(given) != 2 or given.count(None) != 1 or node._saved_self.numel() < _FEWEST:
        return None
    values = node._saved_self.detach().reshape(-1).double()
    return values if given[0] is None else -values
