"""Is a code that is looked up near what it was chosen for, or the farthest of all? Read from a copy's call."""

from collections.abc import Iterator
from typing import Final

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .copy_flow import Flow, FlowCall

NEAREST: Final = "chosen_codes_are_near"
_CLAIM: Final = "a code that is chosen by its distance lies nearer to what it is chosen for than most others"
_CHOICES: Final = frozenset({"argmin", "argmax", "min", "max", "topk", "sort", "argsort"})
_LOOKUPS: Final = frozenset({"embedding", "__getitem__", "index_select"})
#: Functions that compare rows with codes, and those that only change shapes.
_COMPARES: Final = frozenset(
    {"matmul", "__matmul__", "mm", "addmm", "linear", "einsum", "cdist", "sub", "__sub__", "__rsub__", "rsub", "bmm"}
)
_MULTIPLIES: Final = frozenset({"mul", "__mul__", "__rmul__", "multiply", "div", "__truediv__"})
#: Rows and codes below which nothing is said, and those that are compared. Our choice.
_FEWEST_ROWS, _FEWEST_CODES, _MOST_ROWS, _MOST_CODES = 8, 4, 1024, 4096
#: Share of the rows that may have the best code, and from which on codes are less alike, or farther away, than the
#: median one. Our choice: of codes that are drawn at random half are either, of the nearest ones none.
_BEST, _UNLIKE, _FAR = 0.1, 0.8, 0.5


def chosen_codes_are_near(flow: Flow) -> CheckResult | None:
    """Check codes that are picked from a table of parameters by the largest or smallest of some values.

    Those values must have been made of the codes and of rows of the same width, by a product or a difference. Then the
    picked code is compared with all others: its distance to the row, and its scalar product with the row.

    Returns:
        None where no code is picked so.
    """
    has_looked = False
    for lookup, codes, picked in _lookups(flow):
        rows = _rows_of(flow, picked, codes)
        if rows is None:
            continue
        has_looked = True
        best, unlike, far = _shares(rows, codes, picked)
        if best < _BEST and unlike > _UNLIKE and far > _FAR:
            words = (
                f"of {len(rows)} rows, {percent(far)} get a code farther away than most of the {len(codes)}, and "
                f"{percent(unlike)} one that is less alike than most; hardly any gets the nearest"
            )
            result = broken(NEAREST, _CLAIM, words, far=far, unlike=unlike, rows=len(rows), codes=len(codes))
            return result.at(lookup.module)
    return held(NEAREST, _CLAIM) if has_looked else None


def _lookups(flow: Flow) -> Iterator[tuple[FlowCall, torch.Tensor, torch.Tensor]]:
    """Yield calls that take rows of a table of parameters or buffers, the table, and one index for each row."""
    for call in flow.calls:
        if call.name not in _LOOKUPS or len(call.given) != 2:
            continue
        table, index = sorted(call.given, key=lambda one: not one.is_floating_point())
        is_table = table.dim() == 2 and flow.maker_of(table) is None and table.is_floating_point()
        if is_table and index.dtype in (torch.int64, torch.int32) and _FEWEST_CODES <= len(table) <= _MOST_CODES:
            yield call, table, index


def _rows_of(flow: Flow, picked: torch.Tensor, codes: torch.Tensor) -> torch.Tensor | None:
    """Return the rows `(rows, width)` that the codes were compared with before the choice; None if there are none."""
    behind = flow.calls_behind(picked)
    chosen = [call for call in behind if call.name in _CHOICES and call.given and call.given[0].shape[-1] == len(codes)]
    if not chosen or not any(one is codes for call in behind for one in call.given):
        return None
    width = codes.shape[1]
    for call in reversed(behind[: behind.index(chosen[-1])]):
        if call.name not in _COMPARES:
            continue
        for one in call.given:
            is_rows = one.is_floating_point() and one.dim() > 1 and one.numel() == picked.numel() * width
            if is_rows and one.shape[-1] == width and one is not codes and not flow.depends(one, codes):
                rows = _unscaled(flow, one).detach().reshape(-1, width)
                return rows if len(rows) >= _FEWEST_ROWS else None
    return None


def _unscaled(flow: Flow, tensor: torch.Tensor) -> torch.Tensor:
    """Return what was multiplied by a number, as in the cross term of a square; else the tensor itself."""
    call = flow.maker_of(tensor)
    is_multiple = call is not None and call.name in _MULTIPLIES and len(call.given) == 1
    return call.given[0] if call is not None and is_multiple else tensor


def _shares(rows: torch.Tensor, codes: torch.Tensor, picked: torch.Tensor) -> tuple[float, float, float]:
    """Return the shares of rows whose code is the best by some measure, less alike, and farther than the median code.

    Measures are the distance, the scalar product and the cosine.
    """
    rows, chosen = rows[:_MOST_ROWS].double(), picked.detach().reshape(-1, 1)[:_MOST_ROWS].long()
    table = codes.detach().double()
    distances, likeness = torch.cdist(rows, table), rows @ (table - table.mean(0)).t()
    measures = (distances, -(rows @ table.t()), -(rows @ torch.nn.functional.normalize(table, dim=1).t()))
    best = max(float((one.argmin(1, keepdim=True) == chosen).double().mean()) for one in measures)
    is_unlike = likeness.gather(1, chosen) < likeness.median(1, keepdim=True).values
    is_far = distances.gather(1, chosen) > distances.median(1, keepdim=True).values
    return best, float(is_unlike.double().mean()), float(is_far.double().mean())
