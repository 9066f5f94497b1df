"""Does every input of a model vary? Read from the batches of two occasions: a constant tells the model nothing."""

from collections.abc import Iterator, Mapping, Sequence

import torch

from .check_result import CheckResult, broken, held
from .model_call import ModelCall, input_words

VARIES = "inputs_vary"
_CLAIM = "{input} has more than one value"
#: Samples of a batch, rows of a table, and columns or channels, from which on or up to which a constant is looked for.
#: Wider tables have empty columns as pictures have empty corners. Our choice.
_FEWEST, _FEWEST_ROWS, _MOST_COLUMNS, _MOST_CHANNELS, _SMALLEST = 8, 16, 32, 8, 4
#: Elements of a target from which on it passes for normal noise, within six standard errors of mean and deviation.
_DRAWS, _MEAN_ERROR, _STD_ERROR, _MOST = 256, 6.0, 4.3, 1 << 16


def inputs_vary(
    call: ModelCall, earlier: Mapping[str, torch.Tensor], targets: Sequence[torch.Tensor]
) -> Iterator[CheckResult]:
    """Check numbers given for each sample, channels of images and columns of tables, in the batches of two steps.

    What a program may well keep constant is left out: lengths of rows that are equally long, weights of one, the graph
    that nodes belong to, masks, and columns of tables that hold indicators.

    Args:
        earlier: The tensors of the earlier call, by name.
        targets: What the outputs are compared with; if it is noise of an input's shape, a constant number beside that
            input is the noise level or the time step (number `noise` 1), unless another number varies.
    """
    tensors = {name: tensor for name, tensor in call.tensors().items() if tensor.dim() and tensor.numel()}
    pairs = {name: (earlier[name], tensor) for name, tensor in tensors.items() if name in earlier}
    data = [tensor for tensor in tensors.values() if tensor.is_floating_point() and _varies(tensor)]
    if not data:
        return
    numbers = [pair for pair in pairs.values() if _is_of_samples(pair[1])]
    has_level = any(_varies(now) or not bool((before == now.reshape(-1)[0]).all()) for before, now in numbers)
    is_noise = not has_level and any(_is_noise(target, data) for target in targets)
    for name, (before, now) in pairs.items():
        others = [tensor for other, tensor in tensors.items() if other != name]
        if now.dtype == torch.bool or before.shape[1:] != now.shape[1:]:
            continue
        if _is_of_samples(now):
            if any(len(tensor) == len(now) for tensor in data) and not _may_be_constant(now, others, is_noise):
                yield _of_samples(name, before, now, is_noise)
        elif now.is_floating_point() and now.dim() in (2, 4):
            result = _of_columns(name, before, now)
            if result is not None:
                yield result


def _is_of_samples(values: torch.Tensor) -> bool:
    return values.dim() == 1 or tuple(values.shape[1:]) == (1,)


def _of_samples(name: str, before: torch.Tensor, now: torch.Tensor, is_noise: bool) -> CheckResult:
    first = now.reshape(-1)[0]
    if not bool((now == first).all()) or not bool((before == first).all()):
        return held(VARIES, _CLAIM.format(input=input_words(name)), subject=name)
    words = f"{name} {tuple(now.shape)} is {float(first):.4g} for every sample, in the batches of two steps"
    numbers = {"value": float(first), "samples": float(len(now)), "noise": float(is_noise)}
    return broken(VARIES, _CLAIM.format(input=input_words(name)), words, subject=name, **numbers)


def _may_be_constant(values: torch.Tensor, others: Sequence[torch.Tensor], is_noise: bool) -> bool:
    """Return whether a number for each sample may be the same for all: a length, a weight, a graph's number."""
    if len(values) < _FEWEST:
        return True
    if is_noise:
        return False
    first = float(values.reshape(-1)[0])
    is_length = any(first == size for tensor in others for size in tensor.shape)
    has_edges = any(tensor.dim() == 2 and tensor.shape[0] == 2 and not tensor.is_floating_point() for tensor in others)
    return first == 1.0 or is_length or has_edges


def _of_columns(name: str, before: torch.Tensor, now: torch.Tensor) -> CheckResult | None:
    """Return the result for the columns of a table `(rows, columns)`, or channels `(N, channels, height, width)`."""
    columns, is_table = now.shape[1], now.dim() == 2
    if is_table and (min(len(before), len(now)) < _FEWEST_ROWS or not 2 <= columns <= _MOST_COLUMNS):
        return None
    if not is_table and (not 2 <= columns <= _MOST_CHANNELS or min(now.shape[2:]) < _SMALLEST or len(now) < 2):
        return None
    both = torch.cat([tensor.movedim(1, 0).reshape(columns, -1) for tensor in (before, now)], 1)
    same = (both == both[:, :1]).all(1)
    is_indicator = ((both == 0) | (both == 1)).all(1) & ~same
    if bool(same.all()) or (is_table and bool(is_indicator.any())):
        return None
    found = [at for at in same.nonzero().reshape(-1).tolist() if not is_table or float(both[at, 0]) == 0.0]
    if not found:
        return held(VARIES, _CLAIM.format(input=input_words(name)), subject=name)
    what = "column" if is_table else "channel"
    value = float(both[found[0], 0])
    words = (
        f"{what} {found[0]} of {name} {tuple(now.shape)} is {value:.4g} in every sample of the batches of two steps, "
        f"and {columns - int(same.sum())} other {what}s vary"
    )
    return broken(
        VARIES,
        _CLAIM.format(input=input_words(name)),
        words,
        subject=name,
        value=value,
        columns=len(found),
        first=found[0],
    )


def _varies(tensor: torch.Tensor) -> bool:
    return bool((tensor != tensor.reshape(-1)[0]).any())


def _is_noise(target: torch.Tensor, data: Sequence[torch.Tensor]) -> bool:
    """Return whether a target of an input's shape is normal noise, and not an input itself."""
    alike = [tensor for tensor in data if tensor.shape == target.shape]
    if not alike or any(torch.equal(tensor, target.to(tensor)) for tensor in alike):
        return False
    return is_normal_noise(target)


def is_normal_noise(target: torch.Tensor) -> bool:
    """Return whether numbers pass for draws from the standard normal distribution, by their first four moments."""
    if target.numel() < _DRAWS:
        return False
    sample = target.detach().reshape(-1)[:_MOST].double()
    error = float(len(sample)) ** -0.5
    is_unit = abs(float(sample.mean())) < _MEAN_ERROR * error and abs(float(sample.std()) - 1) < _STD_ERROR * error
    kurtosis = float(((sample - sample.mean()) / sample.std()).pow(4).mean())
    is_normal = abs(kurtosis - 3.0) < _MEAN_ERROR * 24**0.5 * error
    return bool(is_unit) and bool(is_normal)
