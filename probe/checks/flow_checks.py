"""Is a model whose likelihood is maximised as that of a normalising flow one: is its log-determinant that of its map?

The change of variables (Rezende and Mohamed 2015, arXiv:1505.05770, equation 5; Dinh et al. 2017, arXiv:1605.08803,
equation 3) gives the likelihood of x as that of z = f(x), plus log |det df/dx|. For a standard normal z the gradients
of the loss show that it is such a likelihood: that of z is a multiple of z itself, that of the log-determinant the
negative of this factor, the same for each sample.
"""

from collections.abc import Iterator, Sequence

import torch

from .bounded_outputs import NetworkCall
from .check_result import CheckResult, broken, held, undecided
from .model_probe import ModelProbe, NotAnswered

DETERMINANT, TRANSFORMED = "log_determinant_is_that_of_the_map", "every_dimension_is_transformed"
INVERTED, WEIGHED = "inverse_undoes_the_map", "likelihood_adds_its_terms_alike"
_DETERMINANT = "the log-determinant that the model returns is that of its map"
_TRANSFORMED = "the map changes every dimension of its input"
_INVERTED = "the inverse of each layer undoes its map"
_WEIGHED = "the loss adds the log-density of z and the log-determinant with the same weight"
#: Methods that are called after what they undo.
_INVERSES = ("inverse", "reverse", "inv", "invert", "backward_pass", "decode", "g")
#: Samples, and dimensions of one, for which the Jacobian is computed. Our choice: its cost is their product.
_SAMPLES, _DIMENSIONS, _FEWEST = 8, 64, 4
#: Relative error within which gradients are multiples, and error of a log-determinant per dimension.
_SAME, _ERROR = 1e-4, 1e-2
#: Layers in a row from which on all dimensions must have been transformed: two halves that take turns.
_LAYERS = 2
#: Relative error of a weight, and distance of a sample from its round trip, over the samples' spread. Our choice.
_WEIGHT, _ROUND_TRIP = 1e-3, 0.01


def weight_of_a_flow(root: torch.Tensor, outputs: Sequence[torch.Tensor]) -> float | None:
    """Return how much the log-density of z weighs in the loss, over the weight of the log-determinant.

    None where the loss is no log-likelihood of a flow with a standard normal, that returns z and its log-determinant.
    1 is right. So is -1 if the model returns the log-determinant of the other direction.
    """
    if len(outputs) != 2 or outputs[0].dim() != 2 or outputs[1].shape != outputs[0].shape[:1]:
        return None
    z, determinant = outputs
    if len(z) < _FEWEST or not (z.requires_grad and determinant.requires_grad):
        return None
    slopes = torch.autograd.grad(root, [z, determinant], retain_graph=True, allow_unused=True)
    if slopes[0] is None or slopes[1] is None:
        return None
    factor, values = float(slopes[1].mean()), z.detach()
    size = float((values * values).sum())
    if not factor or not size:
        return None
    density = float((slopes[0] * values).sum()) / size
    is_even = bool(((slopes[1] - factor).abs() <= _SAME * abs(factor)).all())
    is_multiple = bool(torch.allclose(slopes[0], density * values, rtol=_SAME, atol=_SAME * abs(density)))
    weight = -density / factor
    dimensions = z.shape[1]
    known = (1.0, -1.0, *((1.0 / dimensions, float(dimensions)) if dimensions > 1 else ()))
    is_known = any(abs(weight - one) <= _WEIGHT * abs(one) for one in known)
    return weight if density > 0 and is_even and is_multiple and is_known else None


def flow_is_invertible_as_said(probe: ModelProbe, weight: float) -> Iterator[CheckResult]:
    """Check the log-determinant of some samples, its weight, and that the map transforms and can be inverted.

    Args:
        weight: As `weight_of_a_flow` returns it.
    """
    given = [(name, tensor) for name, tensor in probe.call.tensors().items() if tensor.shape == probe.base[0].shape]
    if len(given) != 1 or given[0][1].shape[1] > _DIMENSIONS:
        return
    name, x = given[0]
    yield from _inverses(probe)
    try:
        said, jacobian = probe.log_determinants(name, _SAMPLES)
    except NotAnswered as reason:
        yield undecided(DETERMINANT, _DETERMINANT, str(reason))
        return
    yield _transformed(name, x, probe.base[0], jacobian)
    determinant = _determinant(said, torch.linalg.slogdet(jacobian)[1], x.shape[1], is_turned=weight < 0)
    yield determinant
    yield _weighed(weight, x.shape[1], determinant)


def _transformed(name: str, x: torch.Tensor, z: torch.Tensor, jacobian: torch.Tensor) -> CheckResult:
    """Check that every dimension is changed, and by more than a number that is the same for all samples."""
    kept = [at for at in range(x.shape[1]) if torch.equal(z[:, at], x[:, at].double())]
    if kept and len(kept) < x.shape[1]:
        words = f"dimension {kept[0]} of {name} comes out as it went in, for all {len(x)} samples"
        return broken(TRANSFORMED, _TRANSFORMED, words, subject=name, dimension=float(kept[0]), kept=float(len(kept)))
    scaled = _only_scaled(jacobian)
    if scaled and len(scaled) < x.shape[1]:
        at = scaled[0]
        words = (
            f"dimension {at} of {name} is multiplied by {float(jacobian[0, at, at]):.4g} for every sample, "
            "whatever the other dimensions are, and others are transformed"
        )
        return broken(TRANSFORMED, _TRANSFORMED, words, subject=name, dimension=float(at), kept=float(len(scaled)))
    return held(TRANSFORMED, _TRANSFORMED, subject=name)


def chained_maps_transform(calls: Sequence[NetworkCall]) -> CheckResult | None:
    """Check that layers that a program calls one after the other change every dimension of what the first is given.

    Args:
        calls: All calls of networks in a step, in order.

    Returns:
        None where no two layers with a log-determinant follow each other.
    """
    chain: list[NetworkCall] = []
    for call in calls:
        if chain and call.given is chain[-1].outputs[0] and _is_a_map(call):
            chain.append(call)
        elif len(chain) < _LAYERS:
            chain = [call] if _is_a_map(call) else []
    if len(chain) < _LAYERS or chain[0].given is None:
        return None
    x, z = chain[0].given.detach(), chain[-1].outputs[0].detach()
    kept = [at for at in range(x.shape[1]) if torch.equal(z[:, at], x[:, at])]
    if not kept or len(kept) == x.shape[1]:
        return held(TRANSFORMED, _TRANSFORMED)
    words = (
        f"dimension {kept[0]} of what {chain[0].site} is given comes out of {chain[-1].site}, {len(chain)} layers "
        f"later, as it went in, for all {len(x)} samples"
    )
    return broken(TRANSFORMED, _TRANSFORMED, words, dimension=float(kept[0]), kept=float(len(kept)))


def _is_a_map(call: NetworkCall) -> bool:
    """Return whether a call with gradients returns a map of its input `(N, D)`, and one number for each sample."""
    given, outputs = call.given, call.outputs
    if not call.is_taught or given is None or given.dim() != 2 or len(given) < _FEWEST or len(outputs) != 2:
        return False
    return outputs[0].shape == given.shape and outputs[1].shape in (given.shape[:1], (len(given), 1))


def _only_scaled(jacobian: torch.Tensor) -> list[int]:
    """Return the dimensions that come out multiplied by one number, the same for all samples."""
    size = jacobian.abs().amax()
    samples, dimensions, _ = jacobian.shape
    if samples < _FEWEST or not dimensions:
        return []
    own = jacobian.diagonal(dim1=1, dim2=2)
    others = (jacobian - torch.diag_embed(own)).abs().amax((0, 2))
    spread = own.amax(0) - own.amin(0)
    is_scaled = (others <= _SAME * size) & (spread <= _SAME * own.abs().amax(0))
    return [at for at in range(dimensions) if bool(is_scaled[at])]


def _determinant(said: torch.Tensor, true: torch.Tensor, dimensions: int, *, is_turned: bool) -> CheckResult:
    true = -true if is_turned and float((said + true).abs().median()) < float((said - true).abs().median()) else true
    error = (said - true).abs()
    worst = int(error.argmax())
    numbers = {"said": float(said[worst]), "true": float(true[worst]), "samples": float(len(said))}
    if float(error[worst]) > _ERROR * dimensions and float(error.median()) > _ERROR:
        words = (
            f"for sample {worst} the model says a log-determinant of {float(said[worst]):.4g}, and that of its map's "
            f"Jacobian is {float(true[worst]):.4g}"
        )
        return broken(DETERMINANT, _DETERMINANT, words, subject="", **numbers)
    return held(DETERMINANT, _DETERMINANT, subject="", **numbers)


def _weighed(weight: float, dimensions: int, determinant: CheckResult) -> CheckResult:
    """Check that z's log-density and the log-determinant are added with one weight."""
    if abs(weight - 1) <= _WEIGHT or (weight < 0 and determinant.outcome == "held"):
        return held(WEIGHED, _WEIGHED, weight=weight)
    if weight < 0:
        return undecided(WEIGHED, _WEIGHED, "the log-determinant is that of no direction", weight=weight)
    which = "averaged over" if weight < 1 else "counted once for each of"
    words = (
        f"the loss weighs the log-density of z {weight:.4g} times as much as the log-determinant: as if one of them "
        f"were {which} the {dimensions} dimensions, and the other summed"
    )
    return broken(WEIGHED, _WEIGHED, words, weight=weight, dimensions=float(dimensions))


def _inverses(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check layers, and the model, that return a tensor with its log-determinant and have a method that inverts it."""
    worst: tuple[float, str, float] | None = None
    tried = 0
    for name, given, returned in probe.round_trips(_INVERSES):
        tried += 1
        size = float((given - given.mean(0)).norm()) or float(given.norm())
        error = float((returned - given).norm()) / size if size else 0.0
        if worst is None or not error <= worst[0]:
            worst = (error, name, float(given.shape[0]))
    if worst is None:
        return
    error, name, samples = worst
    if not error <= _ROUND_TRIP:
        words = (
            f"{name} is given {samples:.0f} samples, and its inverse makes others of what it returns: they are off by "
            f"{error:.2g} times the spread of the samples"
        )
        found = broken(INVERTED, _INVERTED, words, error=error, tried=float(tried))
        yield found.at("" if name == "the model" else name)
    else:
        yield held(INVERTED, _INVERTED, error=error, tried=float(tried))
