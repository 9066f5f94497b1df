"""Updates that are lost in the rounding of the weights' own number format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Finding, Structure
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.steady_rate import SteadyRate
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Window

#: Formats whose neighbours are further apart than a thousandth of a number.
_COARSE: Final = frozenset({"bfloat16", "float16"})
#: Optimizers of torch, which keep no other copy of a weight, and add up nothing that was rounded away.
_PLAIN: Final = frozenset({"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta"})
#: Share of the weights with a gradient that must stay as they are in a step, and records for which they must. Our
#: choice: Adam moves all weights but the largest as long as a step is a thousandth of them.
_LOST, _LASTING = 0.6, 40


def _of(dtype: str, optimizer: str = "SGD") -> Structure:
    model = chain("one:Dense", "two:Dense", optimizer=optimizer)
    return replace(model, parameters=tuple(replace(one, dtype=dtype) for one in model.parameters))


def _steps(
    lost: float, dead: float = 0.0, rates: tuple[float, ...] = (0.01,) * 60
) -> dict[str, float | Sequence[float | None]]:
    series: dict[str, float | Sequence[float | None]] = {"scalar/learning_rate": rates}
    for site in ("one.weight", "two.weight"):
        series |= {f"{site} update/zeros": 64 * lost, f"{site} update/size": 64.0, f"{site} gradient/size": 64.0}
        series |= {f"{site} gradient/zeros": 64 * dead}
    return series


@dataclass(slots=True)
class _RoundedUpdatesState:
    """The shares that were lost lately, since when, the rates of that time, and the weights of a coarse format."""

    shares: Window = field(default_factory=lambda: Window(_LASTING))
    rate: SteadyRate = field(default_factory=lambda: SteadyRate(_LASTING))
    structure: Structure | None = None
    coarse: frozenset[str] = frozenset()
    since: int = 0
    is_reported: bool = False

    def watched(self, structure: Structure) -> frozenset[str]:
        """Return the weights of a coarse format, where all optimizers are torch's own; else none."""
        if structure is not self.structure:
            is_plain = bool(structure.optimizers) and all(one.kind in _PLAIN for one in structure.optimizers)
            coarse = (one.site for one in structure.parameters if one.dtype in _COARSE and one.group is not None)
            self.structure, self.coarse = structure, frozenset(coarse if is_plain else ())
        return self.coarse


def _skip_window(lookahead: Lookahead, memory: _RoundedUpdatesState) -> SkipWindow | None:
    """Skip records of a training without weights of a coarse format."""
    is_idle = memory.is_reported or not memory.watched(lookahead.context.model.structure)
    return lookahead.whole if is_idle else None


@rule(
    "rounded-updates",
    needs=("update", "gradient"),
    triggers=("update",),
    phase=OPTIMIZER,
    skip_window=_skip_window,
    memory=_RoundedUpdatesState,
    warm_up=_LASTING,
    is_optional=True,
    fires_on=(Recording(_steps(0.9), _of("bfloat16")), Recording(_steps(0.8, 0.1), _of("float16", "Adam"))),
    silent_on=(
        Recording(_steps(0.3), _of("bfloat16")),
        Recording(_steps(0.9), _of("float32")),
        Recording(_steps(0.9), _of("bfloat16", "KahanAdamW")),
        # a table of embeddings, of which a batch uses few rows
        Recording(_steps(0.95, 0.9), _of("bfloat16")),
        # a warm-up, and the end of a schedule
        Recording(_steps(0.9, rates=tuple(0.001 * step for step in range(60))), _of("bfloat16")),
        Recording(_steps(0.9, rates=(0.1, *(0.001,) * 59)), _of("bfloat16")),
    ),
)
def check(context: StepContext, memory: _RoundedUpdatesState) -> Iterator[Finding]:
    """Report weights of bfloat16 or float16 that most updates do not change.

    A number of bfloat16 has 8 significant bits: what is less than a 256th of a weight, or half of that, is rounded
    away when it is added, in each step anew (Zamirai et al. 2020, "Revisiting BFloat16 Training", arXiv:2010.06192).
    The rule fires when, in 40 records at a steady rate, three fifths of the weights that have a gradient stay as they
    are, bit by bit, and one of torch's own optimizers holds them. Keep the weights in float32 and compute in bfloat16
    under autocast, or take an optimizer that rounds at random or carries on what was lost.
    """
    coarse = memory.watched(context.model.structure)
    if memory.is_reported or context.record.skipped or not coarse:
        return
    updates, gradients = context.table("update"), context.table("gradient")
    if updates is None or gradients is None:
        return
    stayed, counted = _lost(updates, gradients, coarse)
    if not counted.sum():
        return
    memory.rate.learn(context.rate)
    share = float(stayed.sum() / counted.sum())
    memory.since = context.step if not len(memory.shares.newest(1)) else memory.since
    memory.shares.add(share)
    shares = memory.shares.newest(_LASTING)
    if len(shares) < _LASTING or min(shares) < _LOST or not memory.rate.is_steady:
        return
    memory.is_reported = True
    worst = updates.rows.sites[int(np.argmax(stayed))]
    dtype = context.model.parameters[worst].dtype
    yield context.finding(
        worst,
        "update/zeros",
        {"share": float(np.median(shares)), "records": float(len(shares)), "weights": float(counted.sum())},
        severity="warning",
        first_step=memory.since,
        position=0,
        explanation=f"in {len(shares)} records {float(np.median(shares)):.0%} of the weights that have a gradient stay "
        f"as they are: the updates are smaller than the distance between two numbers of {dtype}, and are lost",
        advice="keep the weights in float32 and compute under torch.autocast, or use an optimizer that rounds at "
        "random or carries on what is lost (Kahan summation); a higher learning rate would lose less",
        confidence=0.9,
    )


def _lost(updates: Table, gradients: Table, coarse: frozenset[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return by row how many weights with a gradient stay as they are, and how many have one; 0 where none is known."""
    size, still = updates.column("size"), updates.column("zeros")
    idle = gradients.at(updates.rows, gradients.column("zeros"))
    is_known = updates.present & np.array([site in coarse for site in updates.rows.sites])
    is_known &= np.isfinite(size) & np.isfinite(still) & np.isfinite(idle)
    stayed = np.where(is_known, np.clip(still - idle, 0.0, None), 0.0)
    return stayed, np.where(is_known, size - idle, 0.0)
