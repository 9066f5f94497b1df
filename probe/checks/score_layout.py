"""Does each prediction meet its own target? Read from the order in which a loss gets outputs and targets."""

from collections.abc import Iterable

import torch

from .check_result import CheckResult, broken, held
from .padding import padding_of

SELF = "no_sample_competes_with_itself"
_SELF = "no sample is among the candidates for its own partner"
#: Samples from which on a table of scores is looked at, and relative error within which similarities are the same.
_FEWEST_SAMPLES, _SAME = 8, 1e-3
LAYOUT = "scores_keep_their_positions"
_LAYOUT = "the loss gets the scores of each position together, in the order of the targets"
#: Share of positions at which targets must agree with the input to be called the same, and elements that are compared.
_ALIKE, _MOST_ELEMENTS = 0.98, 1 << 20


def scores_keep_their_positions(
    scores: torch.Tensor,
    target: torch.Tensor,
    outputs: Iterable[torch.Tensor],
    inputs: Iterable[tuple[str, torch.Tensor]],
) -> CheckResult | None:
    """Check a loss of class indices for outputs `(batch, positions, classes)`.

    Args:
        scores: What the loss gets, `(rows, classes)` or `(batch, classes, positions)`.
        target: Its class indices.
        outputs: What models have returned in this step.
        inputs: What they got, by name.

    Returns:
        A broken claim where a reshape stands for a transpose, or outputs and targets are flattened in another order;
        None where nothing can be said.
    """
    if target.is_floating_point() or scores.dim() < 2 or scores.numel() > _MOST_ELEMENTS:
        return None
    for output in outputs:
        if output.dim() != 3:
            continue
        given = list(inputs)
        if output.numel() - output[:, :1].numel() == scores.numel():  # the loss shifts
            given = [(name, tokens[:, 1:]) for name, tokens in given if tokens.dim() > 1]
            output = output[:, :-1]
        if output.numel() != scores.numel():
            continue
        found = _reshaped(scores, output) if scores.dim() == 3 else _reordered(scores, target, output, given)
        if found is not None:
            return found
    return None


def _reshaped(scores: torch.Tensor, output: torch.Tensor) -> CheckResult | None:
    """Return a broken claim if scores `(batch, classes, positions)` are the output's numbers in their old order."""
    batch, positions, classes = output.shape
    if tuple(scores.shape) != (batch, classes, positions) or classes == positions or 1 in (classes, positions):
        return None
    if not torch.equal(scores.detach().reshape(-1), output.detach().reshape(-1)):
        return None
    return broken(
        LAYOUT,
        _LAYOUT,
        f"the loss gets the output {tuple(output.shape)} as {tuple(scores.shape)} with its numbers in the same order: "
        "a reshape where a transpose belongs, so the scores of one position are those of several",
        positions=positions,
        classes=classes,
    )


def _reordered(
    scores: torch.Tensor, target: torch.Tensor, output: torch.Tensor, inputs: Iterable[tuple[str, torch.Tensor]]
) -> CheckResult | None:
    """Return a broken claim if rows of scores and their targets run along different axes first."""
    first, second, classes = output.shape
    if scores.shape[-1] != classes or target.numel() != first * second or min(first, second) < 3:
        return None
    rows = scores.detach().reshape(-1)
    is_plain = torch.equal(rows, output.detach().reshape(-1))
    is_turned = not is_plain and torch.equal(rows, output.detach().transpose(0, 1).reshape(-1))
    if not is_plain and not is_turned:
        return None
    for name, tokens in inputs:
        if tuple(tokens.shape) != (first, second) or tokens.is_floating_point():
            continue
        in_order, turned = target.reshape(first, second), target.reshape(second, first).t()
        mine, other = (in_order, turned) if is_plain else (turned, in_order)
        if _belongs(other, tokens) and not _belongs(mine, tokens):
            return broken(
                LAYOUT,
                _LAYOUT,
                f"the scores run along axis {0 if is_turned else 1} of the output {tuple(output.shape)} first and the "
                f"targets along axis {1 if is_turned else 0} of {name}: most predictions meet the target of another "
                "position of another sample",
                subject=name,
                positions=second,
                classes=classes,
            )
    return None


def _belongs(targets: torch.Tensor, tokens: torch.Tensor) -> bool:
    """Return whether targets are the tokens, or the next ones, or are one value just where tokens are padding."""
    pairs = ((targets, tokens), (targets[:, :-1], tokens[:, 1:]))
    if any(_agree(wanted, given) for wanted, given in pairs):
        return True
    padded = padding_of(tokens)
    if padded is None:
        return False
    ends = targets[padded]
    return bool((ends == ends[0]).all()) and bool(((targets == ends[0]) == padded).all())


def _agree(targets: torch.Tensor, values: torch.Tensor) -> bool:
    counts = targets >= 0
    total = int(counts.sum())
    if total < 0.5 * targets.numel() or bool((values == values.reshape(-1)[0]).all()):
        return False
    return int(((targets == values) & counts).sum()) >= _ALIKE * total


def no_sample_competes_with_itself(scores: torch.Tensor, target: torch.Tensor) -> CheckResult | None:
    """Check a loss that chooses among the samples of a batch: none may have itself beside its partner.

    Similarities of normalised vectors are largest, and all the same, on the diagonal. Left in, each sample is pushed
    away from itself, which cannot be, and the loss has a floor (Chen et al. 2020, "A simple framework", eq. 1: k != i).

    Args:
        scores: What the loss gets, `(samples, samples)`.
        target: The index of each sample's partner.
    """
    count = scores.shape[0]
    if scores.dim() != 2 or scores.shape[1] != count or count < _FEWEST_SAMPLES or tuple(target.shape) != (count,):
        return None
    own = torch.arange(count, device=target.device)
    if target.is_floating_point() or bool((target == own).any()) or bool((target < 0).any()):
        return None
    values = scores.detach().double()
    diagonal = values.diagonal()
    largest = float(diagonal.max())
    is_self = float(diagonal.min()) > 0 and float(diagonal.min()) >= (1 - _SAME) * largest
    if not is_self or bool((values.amax(1) > (1 + _SAME) * largest).any()):
        return held(SELF, _SELF)
    words = (
        f"the scores {tuple(scores.shape)} are {largest:.4g} all along the diagonal, the largest of every row, and no "
        "target is there: each sample stands among the candidates for its own partner"
    )
    return broken(SELF, _SELF, words, samples=count, diagonal=largest)
