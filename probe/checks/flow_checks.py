"""Is a model whose likelihood is maximised as that of a normalising flow one: is its log-determinant that of its map?

The change of variables (Rezende and Mohamed 2015, arXiv:1505.05770, equation 5; Dinh et al. 2017, arXiv:1605.08803,
equation 3) gives the likelihood of x as that of z = f(x), plus log |det df/dx|. For a standard normal z the gradients
of the loss show that it is such a likelihood: that of z is a multiple of z itself, that of the log-determinant the
negative of this factor, the same for each sample.
"""

from collections.abc import Iterator, Sequence

import torch

from .check_result import CheckResult, broken, held, undecided
from .model_probe import ModelProbe, NotAnswered

DETERMINANT, TRANSFORMED = "log_determinant_is_that_of_the_map", "every_dimension_is_transformed"
_DETERMINANT = "the log-determinant that the model returns is that of its map"
_TRANSFORMED = "the map changes every dimension of its input"
#: Samples, and dimensions of one, for which the Jacobian is computed. Our choice: its cost is their product.
_SAMPLES, _DIMENSIONS, _FEWEST = 8, 64, 4
#: Relative error within which gradients are multiples, and error of a log-determinant per dimension.
_SAME, _ERROR = 1e-4, 1e-2


def is_likelihood_of_a_flow(root: torch.Tensor, outputs: Sequence[torch.Tensor]) -> bool:
    """Return whether the loss is the negative log-likelihood of a flow that returns z and its log-determinant."""
    if len(outputs) != 2 or outputs[0].dim() != 2 or outputs[1].shape != outputs[0].shape[:1]:
        return False
    z, determinant = outputs
    if len(z) < _FEWEST or not (z.requires_grad and determinant.requires_grad):
        return False
    slopes = torch.autograd.grad(root, [z, determinant], retain_graph=True, allow_unused=True)
    if slopes[0] is None or slopes[1] is None:
        return False
    factor = float(slopes[1].mean())
    is_even = bool(((slopes[1] - factor).abs() <= _SAME * abs(factor)).all())
    wanted = -factor * z.detach()
    return factor < 0 and is_even and bool(torch.allclose(slopes[0], wanted, rtol=_SAME, atol=_SAME * -factor))


def flow_is_invertible_as_said(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check the log-determinant of some samples, and that no dimension passes through as it is."""
    given = [(name, tensor) for name, tensor in probe.call.tensors().items() if tensor.shape == probe.base[0].shape]
    if len(given) != 1 or given[0][1].shape[1] > _DIMENSIONS:
        return
    name, x = given[0]
    kept = [at for at in range(x.shape[1]) if torch.equal(probe.base[0][:, at], x[:, at].double())]
    if kept and len(kept) < x.shape[1]:
        words = f"dimension {kept[0]} of {name} comes out as it went in, for all {len(x)} samples"
        yield broken(TRANSFORMED, _TRANSFORMED, words, subject=name, dimension=float(kept[0]), kept=float(len(kept)))
    else:
        yield held(TRANSFORMED, _TRANSFORMED, subject=name)
    try:
        said, true = probe.log_determinants(name, _SAMPLES)
    except NotAnswered as reason:
        yield undecided(DETERMINANT, _DETERMINANT, str(reason))
        return
    error = (said - true).abs()
    worst = int(error.argmax())
    numbers = {"said": float(said[worst]), "true": float(true[worst]), "samples": float(len(said))}
    if float(error[worst]) > _ERROR * x.shape[1] and float(error.median()) > _ERROR:
        words = (
            f"for sample {worst} the model says a log-determinant of {float(said[worst]):.4g}, and that of its map's "
            f"Jacobian is {float(true[worst]):.4g}"
        )
        yield broken(DETERMINANT, _DETERMINANT, words, subject="", **numbers)
    else:
        yield held(DETERMINANT, _DETERMINANT, subject="", **numbers)
