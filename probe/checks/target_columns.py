"""Is the target among the columns of the input: as it is, one column for each class, or with a little noise?"""

from collections.abc import Iterator
from typing import Final

import torch

from .check_result import CheckResult, broken, held
from .model_call import input_words
from .model_probe import ModelProbe

COLUMN, NEARLY = "targets_are_no_input_column", "targets_are_nearly_no_input_column"
_COLUMN = "no column of {input} is the target itself"
_NEARLY = "no column of {input} is the target up to a little noise"
#: Samples below which nothing is said; from which a copy may be scaled, or have two values only; fewest samples of the
#: rarer one, and of a block of equal ones; and values of another column that tell a table from a sequence of codes. Our
#: choice; and the rounding of a copy.
_FEWEST_SAMPLES, _FEWEST_ROWS, _RARE, _CODED, _ROUNDING = 8, 16, 4, 8, 1e-5
#: Classes from which a column for each is looked for; one of two classes is the target itself.
_CLASSES: Final = 3
#: Share of the target's variance that a nearly equal column leaves, and the error of its slope of 1. Our choice: a
#: feature in units of its own that explains as much has another slope.
_LEFT, _SLOPE = 0.01, 0.05


def targets_in_columns(probe: ModelProbe, target: torch.Tensor, *, is_answer: bool) -> Iterator[CheckResult]:
    """Check that a target with one value a sample is no column of an input `(samples, columns)` or longer.

    Args:
        is_answer: Whether the loss compares it with what this model answers, all of it. Then a column for each class,
            and columns that nearly are the target, are looked for as well: a generator may be given the class that
            another network recognises, and a model that rebuilds its input is given what it rebuilds.
    """
    wanted = target.reshape(-1).double()
    if wanted.numel() < _FEWEST_SAMPLES or wanted.numel() != target.shape[0] or _is_of_blocks(wanted):
        return
    for name, tensor in probe.call.tensors().items():
        if tensor.dim() < 2 or tensor.shape[0] != wanted.numel() or tensor.numel() == wanted.numel():
            continue
        columns = tensor.reshape(tensor.shape[0], -1).double()
        claim = _COLUMN.format(input=input_words(name))
        same = _copies(columns, wanted).nonzero().reshape(-1).tolist()
        one_hot = _columns_of_classes(tensor, target) if is_answer else []
        if same and (int(torch.unique(wanted).numel()) > 2 or _is_a_table(tensor, wanted)):
            yield broken(
                COLUMN,
                claim,
                f"column {same[0]} of {input_words(name)} equals the target, as it is or shifted and scaled, in all "
                f"{wanted.numel()} samples of the batch",
                subject=name,
                column=same[0],
                samples=wanted.numel(),
            )
        elif one_hot:
            words = (
                f"columns {', '.join(map(str, one_hot[:8]))} of {input_words(name)} tell the class, each one of "
                f"{len(one_hot)} classes, in all {wanted.numel()} samples of the batch"
            )
            yield broken(COLUMN, claim, words, subject=name, column=one_hot[0], samples=wanted.numel())
        else:
            yield held(COLUMN, claim, subject=name, samples=wanted.numel())
            if is_answer and not same:
                yield from _nearly(name, tensor, target)


def _is_of_blocks(target: torch.Tensor) -> bool:
    """Return whether the target is one value, or follows the place in the batch: one block of each value after another.

    Such a target says what the batch was put together of, as the domains of an adversarial one, and is no label.
    """
    values, counts = target.unique_consecutive(return_counts=True)
    return len(values) == 1 or (int(counts.min()) >= _RARE and len(values) == len(values.unique()))


def _copies(columns: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return for each column whether it is the target, shifted and scaled as by standardisation."""
    scale = target.abs().max()
    is_same = ((columns - target[:, None]).abs() <= 1e-6 * scale).all(0)
    if len(target) < _FEWEST_ROWS or columns.shape[1] < 2:
        return is_same
    centred, wanted = columns - columns.mean(0), target - target.mean()
    slope = (centred * wanted[:, None]).sum(0) / wanted.pow(2).sum()
    rest = (centred - slope * wanted[:, None]).abs().amax(0)
    return is_same | ((slope != 0) & (rest <= _ROUNDING * centred.abs().amax(0)))


def _columns_of_classes(tensor: torch.Tensor, target: torch.Tensor) -> list[int]:
    """Return a column for each class of the batch that equals its indicator; none where one class has no such column.

    Tables of codes alone are left out: a task on symbols may ask for one of them.
    """
    if target.is_floating_point() or not _has_measures(tensor) or len(target) < _FEWEST_ROWS:
        return []
    classes, columns = target.reshape(-1).unique(), tensor.double()
    if not _CLASSES <= len(classes) <= len(target) // 2:
        return []
    found = [_copies(columns, (target.reshape(-1) == value).double()).nonzero().reshape(-1) for value in classes]
    firsts = [int(each[0]) for each in found if len(each)]
    return firsts if len(firsts) == len(classes) else []


def _nearly(name: str, tensor: torch.Tensor, target: torch.Tensor) -> Iterator[CheckResult]:
    """Yield a broken claim if a column is the target, or an indicator of its class, plus noise of a tenth of it."""
    if not _has_measures(tensor) or len(target) < _FEWEST_ROWS or tensor.shape[1] < 2:
        return
    values, columns = target.reshape(-1), tensor.double()
    is_coded = not target.is_floating_point() and len(values.unique()) >= _CLASSES
    wanted = [(values == value).double() for value in values.unique()] if is_coded else [values.double()]
    if len(wanted) > len(values) // 2:
        return
    near = [_leaves_little(columns, each).nonzero().reshape(-1) for each in wanted]
    firsts = [int(each[0]) for each in near if len(each)]
    if len(firsts) < len(wanted):
        return
    words = (
        f"columns {', '.join(map(str, firsts[:8]))} of {input_words(name)} tell the class" if is_coded else
        f"column {firsts[0]} of {input_words(name)} is the target"
    )  # fmt: skip
    words += f" up to noise of less than a tenth of its spread, in a batch of {len(values)} samples"
    yield broken(
        NEARLY, _NEARLY.format(input=input_words(name)), words, subject=name, column=firsts[0], samples=len(values)
    )


def _leaves_little(columns: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return for each column whether it is the target in its own units, with little beside it."""
    wanted, centred = target - target.mean(), columns - columns.mean(0)
    variance = wanted.pow(2).mean()
    slope = (centred * wanted[:, None]).mean(0) / variance
    rest = (columns - target[:, None]).pow(2).mean(0)
    return ((slope - 1.0).abs() <= _SLOPE) & (rest <= _LEFT * variance)


def _is_a_table(tensor: torch.Tensor, target: torch.Tensor) -> bool:
    """Return whether a column that equals a target of two values is no part of a sequence or a code of such values."""
    if not _has_measures(tensor) or len(target) < _FEWEST_ROWS:
        return False
    values = sorted(int((target == value).sum()) for value in torch.unique(target))
    return len(values) == 2 and values[0] >= _RARE


def _has_measures(tensor: torch.Tensor) -> bool:
    """Return whether these are rows of which some column has many values."""
    if tensor.dim() != 2 or not tensor.is_floating_point():
        return False
    return max(int(torch.unique(column).numel()) for column in tensor[:, :64].T) > _CODED
