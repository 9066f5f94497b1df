"""Is a divergence of normals lowered, and not to nothing? Read from what a loss adds up: exp(s) and s of one tensor."""

from collections.abc import Iterator, Sequence
from typing import Any

from .check_result import CheckResult, broken, held
from .loss_graph import SAME_VALUES, is_packed, shape_of
from .step_direction import DOWNHILL, StepDirection

DIVERGENCE = "divergence_is_lowered"
CODES = "codes_differ_from_the_prior"
_CODES = "a code that is pulled towards the standard normal is not that normal in all its dimensions"
_CLAIM = "a step lowers the divergence from the standard normal that the loss holds"
#: Paths through sums that are followed from a loss, and steps from a value back to its logarithm. Our choice.
_MOST_PATHS, _DEEPEST = 400, 8
#: Values of the graph that are looked at for one of them. Our choice.
_MOST_VALUES = 20_000
#: Relative error within which two factors are the same.
_EXACT = 1e-3
#: Mean distance of a variance from one, below which it is that of the prior. Our choice: one that says a tenth of a nat
#: is at 0.2.
_NEAR_ONE = 0.05
#: Looks, the share of the first distance below which a code has come nearer to the prior, and the step from which that
#: does not matter. Our choice: a fresh encoder may lie near the prior.
_LOOKS, _NEARER, _LATE = 3, 0.3, 200

_Value = tuple[Any, int]  # a node and the number of its output


def divergence_is_lowered(root: Any, nodes: Sequence[Any], direction: StepDirection = DOWNHILL) -> CheckResult | None:
    """Check the sign of exp(s) - s, which a divergence from a standard normal holds for the logarithm s of a variance.

    It is least at s = 0, where both slopes are equal (Kingma & Welling 2014, "Auto-encoding variational Bayes",
    appendix B). Its negative has no lower bound. Also found are `var - log(var)`, and powers of standard deviations.

    Args:
        root: The node that made the loss.
        nodes: The nodes between the loss and the models' outputs.
        direction: Tells which way steps go.

    Returns:
        None if the loss holds no such terms.
    """
    for weight, base, is_least_at_one in _divergences(_added(root, set(nodes))):
        slope = weight * direction.sign(base[1][0])
        if slope > 0 and is_least_at_one:
            return held(DIVERGENCE, _CLAIM, weight=weight)
        if slope < 0:
            shape, sign = shape_of(*base[1]), "-" if is_least_at_one else "+"
            return broken(
                DIVERGENCE,
                _CLAIM,
                f"the loss holds {weight:.4g} * (exp(s) {sign} s) for a tensor s of shape {shape}: the divergence "
                f"of a normal from the standard one with a wrong sign{direction.words(base[1][0])}, which has no bound",
                weight=weight,
            )
    return None


def distance_from_the_prior(root: Any, nodes: Sequence[Any]) -> float | None:
    """Return how far the variances of a code are from one: of its dimensions the furthest, over the batch's samples.

    Args:
        root: The node that made the loss.
        nodes: The nodes between the loss and the models' outputs.

    Returns:
        None if the loss holds no divergence from a standard normal, or its variances were not kept, or nothing else of
        the loss depends on them: where no noise of these variances is added to the code, they tell nothing of it.
    """
    added = _added(root, set(nodes))
    bases = {base for weight, base, is_least_at_one in _divergences(added) if weight > 0 and is_least_at_one}
    bases = {base for base in bases if _is_used_beside(added, base[1])}
    variances = [
        node._saved_result.detach()
        for node, _ in added
        if node.name().startswith("ExpBackward") and any((True, value) in bases for value in node.next_functions)
    ]
    if not variances or any(one.dim() < 2 for one in variances):
        return None
    return max(float((one - 1).abs().reshape(-1, one.shape[-1]).double().mean(0).max()) for one in variances)


def codes_differ_from_the_prior(distances: Sequence[float], step: int) -> CheckResult | None:
    """Return whether a code still says something: a dimension that does has a variance below one.

    That all dimensions come to be the prior is a posterior collapse (Bowman et al. 2016, arXiv:1511.06349, section
    3.1; Lucas et al. 2019, arXiv:1911.02469).

    Args:
        distances: `distance_from_the_prior` at several looks, the newest last.
        step: The step of the newest.

    Returns:
        None while it is too early to say.
    """
    if len(distances) < _LOOKS:
        return None
    furthest = max(distances[-_LOOKS:])
    has_come = furthest < distances[0] * _NEARER or step >= _LATE
    if furthest < _NEAR_ONE and has_come:
        words = f"in each dimension of the code the variance is 1, as in the prior, within {furthest:.2g}"
        return broken(CODES, _CODES, words, furthest=furthest, first=distances[0])
    return held(CODES, _CODES, furthest=furthest) if furthest >= _NEAR_ONE else None


def _is_used_beside(added: dict[_Value, float], value: _Value) -> bool:
    """Return whether a term that a loss adds up depends on a value, other than those that are powers of it."""
    own = {term for term in added if any(base == value for (_, base), _ in _logarithms(*term))}
    waiting = [term for term in added if term not in own and not _terms(term[0])]
    seen = set(waiting)
    for node, _ in waiting:
        if len(seen) > _MOST_VALUES:
            break
        after = {(before, at) for before, at in node.next_functions if before is not None} - seen
        seen |= after
        waiting += after
    return value in seen


def _divergences(added: dict[_Value, float]) -> Iterator[tuple[float, tuple[bool, _Value], bool]]:
    """Yield weight and base of each exp(s) - s among what a loss adds up, and whether it is least at s = 0."""
    slopes: dict[tuple[bool, _Value], float] = {(True, value): weight for value, weight in added.items()}
    for (node, _), weight in added.items():
        if node.name().startswith("LogBackward"):
            for base, power in _logarithms(*node.next_functions[0]):
                slopes[base] = slopes.get(base, 0.0) + weight * power
    for value, weight in added.items():
        for base, power in _logarithms(*value):
            slope, own = slopes.get(base, 0.0), weight * power
            if own != 0.0 and abs(abs(slope) - abs(own)) <= _EXACT * abs(own):  # else a Poisson loss, or a likelihood
                yield weight, base, slope * own < 0


def _added(root: Any, inside: set[Any]) -> dict[_Value, float]:
    """Return what the loss adds up, and by which factors; empty if there is too much of it."""
    waiting, found = [((root, 0), 1.0)], dict[_Value, float]()
    for followed, (value, weight) in enumerate(waiting):
        if followed >= _MOST_PATHS:
            return {}
        found[value] = found.get(value, 0.0) + weight
        if value[0] in inside:
            waiting += [((before, at), weight * factor) for before, at, factor in _terms(value[0])]
    return found


def _terms(node: Any) -> list[tuple[Any, int, float]]:
    """Return what a node adds up, with factors; empty for a node that does something else."""
    name, given = node.name(), node.next_functions
    if name.startswith(("SumBackward", "MeanBackward", *SAME_VALUES)):
        factors = [1.0]
    elif name in ("AddBackward0", "SubBackward0"):
        factors = [1.0, float(node._saved_alpha) * (1.0 if name[0] == "A" else -1.0)]
    elif name in ("NegBackward0", "RsubBackward1"):
        factors = [-1.0]
    else:
        factor = _scale(node)
        factors = [factor] * len(given) if factor is not None else []
    return [(before, at, factor) for (before, at), factor in zip(given, factors, strict=False) if before is not None]


def _scale(node: Any) -> float | None:
    """Return the single number by which a node multiplies; None for any other node."""
    given = [before for before, _ in node.next_functions]
    if node.name() not in ("MulBackward0", "DivBackward0") or given.count(None) != len(given) - 1:
        return None
    if node.name() == "DivBackward0":
        number = node._saved_other if given[0] is not None else None
        return 1.0 / float(number) if number is not None and number.numel() == 1 and bool(number != 0) else None
    number = node._saved_self if given[0] is None else node._saved_other
    return float(number) if number is not None and number.numel() == 1 else None


def _logarithms(node: Any, at: int) -> Iterator[tuple[tuple[bool, _Value], float]]:
    """Yield ways to write a value as a power: `exp(power * s)` as `(True, s)`, and `v ** power` as `(False, v)`."""
    power, is_logarithm = 1.0, False
    for _ in range(_DEEPEST):
        if node is None or is_packed(node):
            return
        yield (is_logarithm, (node, at)), power
        name = node.name()
        if name.startswith("ExpBackward") and not is_logarithm:
            is_logarithm = True
        elif name == "PowBackward0" and not is_logarithm:
            power *= float(node._saved_exponent)
        elif is_logarithm and (name == "NegBackward0" or _scale(node) is not None):
            power *= -1.0 if name == "NegBackward0" else _scale(node) or 0.0
        elif not name.startswith(SAME_VALUES):
            return
        node, at = next(((before, place) for before, place in node.next_functions if before is not None), (None, 0))
