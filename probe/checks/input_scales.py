"""Are the columns of every input of one scale, finite and not constant? Every input counts, also keywords."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import torch

from .check_result import CheckResult, broken, held
from .model_call import ModelCall, input_words
from .model_probe import ModelProbe, NotAnswered

SCALES, SCALED = "input_columns_have_one_scale", "large_inputs_are_scaled_by_the_model"
_SCALED = "the model scales {input}, which is large, itself"
#: Root mean square of a large input, and share of it from which what a layer is given has been scaled. Our choice.
_LARGE_INPUT, _SHRUNK = 10.0, 0.5
_CLAIM = "the columns of {input} have scales within a factor of {ratio:g}"
#: Ratio of the root mean squares of two columns. Standardised columns differ by little; raw counts beside shares differ
#: by this much (LeCun et al. 1998, "Efficient BackProp", section 4.3; the limit is our choice).
_RATIO, _LARGE = 1e3, 30.0
_FEWEST_ROWS, _MOST_COLUMNS = 8, 512


def columns_have_one_scale(call: ModelCall) -> Iterator[CheckResult]:
    """Check every real input `(rows, columns)` with at least two columns."""
    for name, tensor in call.tensors().items():
        if not tensor.is_floating_point() or tensor.dim() != 2:
            continue
        rows, columns = tensor.shape
        if rows < _FEWEST_ROWS or not 2 <= columns <= _MOST_COLUMNS or not bool(torch.isfinite(tensor).all()):
            continue
        values = tensor.detach().double()
        scale = values.pow(2).mean(0).sqrt()
        varying = (values.amax(0) - values.amin(0) > 1e-6 * scale) & (scale > 0)
        if int(varying.sum()) < 2:
            continue
        scale = scale.where(varying, scale.new_full((), float("nan")))
        largest, smallest = _extreme(scale, largest=True), _extreme(scale, largest=False)
        ratio = float(scale[largest] / scale[smallest])
        claim = _CLAIM.format(input=input_words(name), ratio=_RATIO)
        numbers = {"largest": float(scale[largest]), "smallest": float(scale[smallest]), "ratio": ratio}
        if ratio > _RATIO and numbers["largest"] > _LARGE:
            words = (
                f"column {largest} of {name} has a root mean square of {numbers['largest']:.4g}, column {smallest} "
                f"one of {numbers['smallest']:.4g}"
            )
            yield broken(SCALES, claim, words, subject=name, column=float(largest), **numbers)
        else:
            yield held(SCALES, claim, subject=name, **numbers)


def large_inputs_reach_a_layer(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check, of large inputs of real numbers or bytes, whether layers with weights are given numbers as large.

    A model may centre and scale what it is given, or have a norm behind its first layer. Where no layer is a module,
    nothing is known of what it does first.
    """
    large = {name: size for name, tensor in probe.call.tensors().items() if (size := _size(tensor)) > _LARGE_INPUT}
    if not large:
        return
    given = [_size(tensor) for tensor in probe.inputs_of_layers()]
    if not given:
        return
    for name, size in large.items():
        claim, largest = _SCALED.format(input=input_words(name)), max(given)
        is_scaled = largest < _SHRUNK * size and largest < _LARGE_INPUT
        is_real = probe.call.tensors()[name].is_floating_point()
        if is_scaled or (is_real and probe.is_blind_to_scale(name)):
            yield held(SCALED, claim, subject=name, size=size, largest=largest)
        else:
            words = f"{name} has a root mean square of {size:.4g}, and a layer is given {largest:.4g}"
            yield broken(SCALED, claim, words, subject=name, size=size, largest=largest)


def _size(tensor: torch.Tensor) -> float:
    """Return the root mean square of real numbers, and of the bytes of pictures; 0 of anything else."""
    is_counted = tensor.is_floating_point() or (tensor.dtype == torch.uint8 and tensor.dim() > 2)
    return float(tensor.detach().double().square().mean().sqrt()) if is_counted and tensor.numel() else 0.0


def that_reach_a_layer(probe: ModelProbe, results: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """Yield the results; a broken one holds after all where the model scales the column before any layer with weights.

    Where no layer is a module, nothing is known of what the model does first, and the result stays as it is.
    """
    for result in results:
        layers: list[torch.Tensor] = []
        if result.outcome == "broken":
            with suppress(NotAnswered):
                layers = probe.inputs_of_layers()
            column = probe.call.tensors()[result.subject][:, int(result.numbers["column"])].double()
            if layers and not any(_has_column(given, column) for given in layers):
                result = held(result.check, result.claim, subject=result.subject, **result.numbers)
        yield result


def _has_column(given: torch.Tensor, column: torch.Tensor) -> bool:
    if not given.dim() or given.shape[0] != len(column):
        return False
    rows = given.double().reshape(len(column), -1)
    return bool((rows == column[:, None]).all(0).any())


def _extreme(scale: torch.Tensor, *, largest: bool) -> int:
    filled = scale.nan_to_num(-1.0 if largest else float("inf"))
    return int(filled.argmax() if largest else filled.argmin())
