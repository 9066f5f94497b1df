"""Is each label that of its own row, or does a row of the input foretell the label of another row?"""

from dataclasses import dataclass
from typing import Final

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .dependence import samples_are_independent
from .model_probe import ModelProbe
from .places import answers_do_not_depend_on_the_row

OWN_ROW: Final = "labels_belong_to_their_rows"
_CLAIM: Final = "the input of a row foretells the label of that row, and of no other row instead"
#: Rows below which nothing is said, and rows that are read; samples of a class, and columns of a target that are kept
#: (others are mixed at random). Our choice.
_FEWEST, _MOST, _OF_A_CLASS, _COLUMNS = 64, 256, 8, 8
#: Ridge, as a share of the mean of the kernel's diagonal. Our choice.
_RIDGE: Final = 0.05
#: Score, deviations above that of the other shifts, and share of it that the best of them may reach, from which labels
#: are foretold by another row; deviations up to which their own row is at chance. Our choice: of 1500 sets of labels
#: drawn at random, none came near.
_FORETOLD, _SURE, _OTHERS, _CHANCE = 0.2, 8.0, 0.3, 3.0
#: Score, deviations and share from which labels belong to their rows.
_BOUND, _BOUND_SURE, _BOUND_OTHERS = 0.1, 6.0, 0.5
#: Score, and share of the largest covariance with the ranks of a column, from which the label of an earlier row counts
#: as known: a program that forecasts has it in its input, and what comes next may be noise.
_KNOWN, _IN_ORDER = 0.95, 0.97
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class ShiftedScores:
    """How well the input of row `i` foretells the label of row `i + shift`, by a kernel ridge that never saw row `i`.

    Args:
        scores: Share of the labels' variance that is foretold, for each shift; circular.
        center, spread: Median of the scores, and their deviation, by the median of the absolute deviations.
    """

    scores: torch.Tensor
    center: float
    spread: float

    def deviations(self, shift: int) -> float:
        """Return by how many deviations the score at this shift is above that of all."""
        return (float(self.scores[shift]) - self.center) / self.spread

    @property
    def best(self) -> int:
        """The shift that is foretold best, signed."""
        at, count = int(self.scores.argmax()), len(self.scores)
        return at if at <= count // 2 else at - count

    def stands_out(self, shift: int, *, score: float, deviations: float, others: float) -> bool:
        """Return whether this shift has this score and these deviations, and any other at most that share of it."""
        rest = self.scores.clone()
        rest[shift] = self.center
        rise = float(self.scores[shift]) - self.center
        is_high = float(self.scores[shift]) > score and self.deviations(shift) > deviations
        return is_high and float(rest.max()) - self.center < others * rise


def labels_belong_to_their_rows(probe: ModelProbe, target: torch.Tensor) -> CheckResult | None:
    """Check that labels of a full batch belong to the inputs of their own rows.

    Only of models that answer each row by itself: in graphs and sequences of rows, another row may hold what is asked.
    The scores of all other shifts are the control: neighbours that resemble each other raise them as well.

    Returns:
        None where it is unclear: labels may ask for more than a ridge can tell.
    """
    wanted = _columns_of(target)
    inputs = None if wanted is None else _inputs_of(probe, len(target))
    if wanted is None or inputs is None:
        return None
    found = [shifted_scores(kernel, wanted) for kernel in _kernels(inputs)]
    scores = max(found, key=lambda each: float(each.scores.max()))
    best = scores.best
    numbers = {
        "rows": float(len(wanted)),
        "shift": float(best),
        "score": float(scores.scores[best]),
        "own": float(scores.scores[0]),
        "control": scores.center,
        "spread": scores.spread,
    }
    if any(each.stands_out(0, score=_BOUND, deviations=_BOUND_SURE, others=_BOUND_OTHERS) for each in found):
        return held(OWN_ROW, _CLAIM, subject="", **numbers)
    if not _is_of_another_row(scores) or (best < 0 and _is_known(inputs, wanted, scores)) or not _is_by_rows(probe):
        return None
    words = (
        f"the input of row i foretells {percent(numbers['score'])} of the variance of the label of row i{best:+d}, and "
        f"{percent(max(numbers['own'], 0.0))} of that of its own label ({len(wanted)} rows, each left out in turn; the "
        f"labels of other rows: {percent(max(scores.center, 0.0))})"
    )
    return broken(OWN_ROW, _CLAIM, words, subject="", **numbers)


def shifted_scores(kernel: torch.Tensor, wanted: torch.Tensor) -> ShiftedScores:
    """Return the scores of a kernel ridge for all circular shifts of the labels.

    Args:
        kernel: `(N, N)`, of the inputs.
        wanted: `(N, columns)`, of the labels.
    """
    count = len(kernel)
    ridge = _RIDGE * kernel.diagonal().mean() * torch.eye(count, dtype=kernel.dtype, device=kernel.device)
    hat = torch.linalg.solve(kernel + ridge, kernel)
    own = hat.diagonal().clone()
    without = (hat - torch.diag(own)) / (1.0 - own)[:, None]  # what the others tell of each row, in closed form
    numbers = torch.arange(count, device=kernel.device)
    rows = (numbers[:, None] + numbers[None]) % count  # row, shift
    shifted = wanted[rows]
    errors = shifted - (without @ shifted.reshape(count, -1)).reshape(shifted.shape)
    scores = 1.0 - errors.pow(2).sum((0, 2)) / wanted.pow(2).sum()
    center = scores.median()
    return ShiftedScores(scores, float(center), max(1.4826 * float((scores - center).abs().median()), _TINY))


def _columns_of(target: torch.Tensor) -> torch.Tensor | None:
    """Return labels as centred columns, of the first rows; None where they are too few, all the same, or too long."""
    if not target.dim() or len(target) < _FEWEST or target.is_complex():
        return None
    values = target.detach()[:_MOST].cpu().reshape(min(len(target), _MOST), -1)
    if target.is_floating_point():
        columns = values.double()
    elif values.shape[1] == 1:
        classes, counts = values.unique(return_counts=True)
        columns = (values == classes[counts >= _OF_A_CLASS]).double()
    else:
        return None
    centred = columns - columns.mean(0) if columns.numel() else columns
    if not bool(torch.isfinite(centred).all()) or not float(centred.abs().sum()) > _TINY:
        return None
    if centred.shape[1] > _COLUMNS:
        generator = torch.Generator("cpu").manual_seed(0)
        shape = (centred.shape[1], _COLUMNS)
        centred = centred @ torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    return centred


def _inputs_of(probe: ModelProbe, samples: int) -> torch.Tensor | None:
    """Return the real inputs, one row a sample, each column with a deviation of 1."""
    tensors = [tensor for tensor in probe.call.tensors().values() if tensor.dim() > 1 and tensor.is_floating_point()]
    if not tensors or any(len(tensor) != samples for tensor in tensors):
        return None
    rows = torch.cat([tensor.detach()[:_MOST].cpu().reshape(min(samples, _MOST), -1).double() for tensor in tensors], 1)
    deviations = rows.std(0)
    rows = ((rows - rows.mean(0)) / deviations)[:, deviations > _TINY]
    return rows if rows.shape[1] and bool(torch.isfinite(rows).all()) else None


def _kernels(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the products of rows, and a Gaussian of their distances whose width is the median of them."""
    distances = torch.cdist(rows, rows).pow(2)
    width = distances[distances > 0].median() if bool((distances > 0).any()) else distances.new_ones(())
    return rows @ rows.T / rows.shape[1] + 0.1, torch.exp(-distances / width) + 0.1


def _is_of_another_row(scores: ShiftedScores) -> bool:
    is_clear = scores.stands_out(scores.best, score=_FORETOLD, deviations=_SURE, others=_OTHERS)
    return is_clear and float(scores.scores[0]) < _BOUND and scores.deviations(0) < _CHANCE


def _is_known(rows: torch.Tensor, wanted: torch.Tensor, scores: ShiftedScores) -> bool:
    """Return whether the label of another row is in the input as it is, or told by a single column of it."""
    if float(scores.scores[scores.best]) > _KNOWN:
        return True
    moved = wanted.roll(-scores.best, 0)
    ranks = (rows.argsort(0).argsort(0) - (len(rows) - 1) / 2).double()
    most = ranks[:, 0].sort().values @ moved.sort(0).values  # of a column that is in the order of the label
    return bool(((ranks.T @ moved).abs() > _IN_ORDER * most).any())


def _is_by_rows(probe: ModelProbe) -> bool:
    """Return whether the model answers each row by itself, wherever it stands."""
    apart = samples_are_independent(probe, None, is_batched=True)
    if apart is None or apart.outcome != "held":
        return False
    place = answers_do_not_depend_on_the_row(probe)
    return place is not None and place.outcome == "held"
