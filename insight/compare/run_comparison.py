"""Compares two recordings, from the first step to where they diverge."""

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ...storage import Json, Run, StepRecord, Store, display_site
from .noise import CERTAIN, Divergence, NoiseFloor, Rounding, distances
from .pairing import Alignment, TensorPair, align, in_step, tensors
from .program_changes import changed_cause, program_changes, recorded_program, unused_generators
from .setting_differences import GENERATOR, Difference, differences, origins

__all__ = ["Comparison", "compare", "comparison_to_json", "render_comparison"]

Verdict = Literal["identical", "within_noise", "unclear", "diverged", "different_start", "incomparable"]

#: Steps from which the noise is learned if the runs are not bit-equal. Our choice: three tolerate one odd step.
_LEARN = 3
_MOST = 20
_LOSS: Final = "scalar/loss"
#: Subjects whose values depend on the earlier steps at which they were due.
_OF_HISTORY = frozenset({"activation/units", "batch/tokens", "gradient/signal", "update/direction"})
#: Scalars over the recorded parameters, which a configuration chooses.
_OVER_PARAMETERS = frozenset({"gradient_norm", "gradient_noise_scale"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    Args:
        verdict: `identical`: equal to the bit; `within_noise`: never beyond the noise; `unclear`: the same, but
            rounding does not explain `first` in the first common step; `diverged`: from `first` on; `different_start`:
            the first common step differs by more than rounding can; `incomparable`: nothing in common.
        first: The first divergence; None without one.
        also: Other divergences in the same step, in the order of the step, at most 20.
        common: Number of steps that both runs have.
        missing: Number of steps between the first and last common one that only the first, or only the second, run has.
        exact_until: Last step up to which everything was bit-equal; -1 if the first one was not.
        values: Number of compared values.
        is_start_clear: True if rounding explains the first common step, or certainly does not.
        apart: In what the runs differ that no compared value shows, in words: steps that one of them has, a loss that
            one of them has not recorded, optimizers. Values may be equal all the same; the runs are not identical then.
        speaks_of: The cause that the changes of the first run's program speak of if the second one is good; of runs
            that are identical, only a cause that lies in their evaluation. Empty for none.
    """

    runs: tuple[str, str]
    ranks: tuple[int, int]
    verdict: Verdict
    first: Divergence | None
    also: tuple[Divergence, ...]
    common: int
    missing: tuple[int, int]
    exact_until: int
    values: int
    is_start_clear: bool
    alignment: Alignment
    differences: tuple[Difference, ...]
    apart: tuple[str, ...] = ()
    speaks_of: str = ""


def compare(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int] | None = None) -> Comparison:
    """Compare two runs, or two ranks of one.

    Reads both recordings once, up to the step in which they part.

    Args:
        ranks: One of each run; their first ones by default.
    """
    ranks = ranks or (runs[0].first_rank, runs[1].first_rank)
    structures = tuple(store.structure(run.id, rank=rank) for store, run, rank in zip(stores, runs, ranks, strict=True))
    alignment = align(structures[0], structures[1])
    walk = _Walk(alignment, Rounding(structures), _incomparable_scalars(stores, runs, ranks, alignment))
    walk.go(stores[0].replay(runs[0].id, rank=ranks[0]), stores[1].replay(runs[1].id, rank=ranks[1]))
    program, other = (recorded_program(*one) for one in zip(stores, runs, ranks, strict=True))
    differing = (
        *_of_used(origins(stores, runs, ranks, alignment), unused_generators(program, other)),
        *program_changes(program, other),
        *differences(runs, (structures[0], structures[1]), alignment),
    )
    has_loss = [_LOSS in store.metrics(run.id, rank=rank) for store, run, rank in zip(stores, runs, ranks, strict=True)]
    return Comparison(
        runs=(runs[0].id, runs[1].id),
        ranks=ranks,
        verdict=walk.verdict,
        first=walk.parted[0] if walk.parted else None,
        also=tuple(walk.parted[1 : _MOST + 1]),
        common=walk.common,
        missing=(walk.only[0], walk.only[1]),
        exact_until=walk.exact_until,
        values=walk.values,
        is_start_clear=not walk.unclear,
        alignment=alignment,
        differences=differing,
        apart=tuple(_apart(walk, has_loss, differing)),
        speaks_of=changed_cause(program, other, is_trained_alike=walk.verdict == "identical"),
    )


def _apart(walk: "_Walk", has_loss: Sequence[bool], differing: Iterable[Difference]) -> Iterator[str]:
    """Yield in words what makes runs of equal values two different ones."""
    first, second = (between + len(behind) for between, behind in zip(walk.only, walk.waiting, strict=True))
    if (first or second) and not walk.parted:
        yield f"{first} steps are in the first run alone, {second} in the second"
    if has_loss[0] != has_loss[1]:
        yield f"the {'second' if has_loss[0] else 'first'} run has recorded no loss"
    if any(difference.area == "optimizer" for difference in differing):
        yield "their optimizers differ"


def _of_used(starts: Iterable[Difference], unused: Set[str]) -> Iterator[Difference]:
    """Yield what differs at the start, without the generators that no line of either program draws from."""
    return (one for one in starts if one.name.removeprefix(GENERATOR) not in unused)


def _incomparable_scalars(
    stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int], alignment: Alignment
) -> frozenset[str]:
    """Return the scalars over all recorded parameters if the runs have recorded different ones."""
    first, second = (
        {site for layout in store.layouts(run.id, rank=rank) if layout.subject == "gradient" for site in layout.sites}
        for store, run, rank in zip(stores, runs, ranks, strict=True)
    )
    same = {alignment.pairs.get(site, site) for site in first} == second
    return frozenset() if same else _OVER_PARAMETERS


class _Walk:
    """The state of reading both recordings side by side.

    Args:
        left_out: Scalars that are not compared.
    """

    def __init__(self, alignment: Alignment, rounding: Rounding, left_out: frozenset[str]) -> None:
        self.alignment = alignment
        self._left_out = left_out
        self._without_history: set[str] = set()  # subjects that only one of the runs has recorded at some step
        self.noise = NoiseFloor()
        self.parted: list[Divergence] = []
        self.unclear: list[Divergence] = []
        self._rounding = rounding
        self.common, self.values, self.exact_until = 0, 0, -1
        self._pairs, self._newest = 0, -1
        self.only = [0, 0]
        self.verdict: Verdict = "incomparable"
        self.waiting: list[set[int]] = [set(), set()]
        self._learned = 0

    def go(self, first: Iterator[StepRecord], second: Iterator[StepRecord]) -> None:
        """Read both recordings until they diverge."""
        for pair in in_step(first, second):
            self._without_history |= _history(pair.first) ^ _history(pair.second)
            if pair.first is None or pair.second is None:
                if (alone := pair.first or pair.second) is not None:
                    self.waiting[0 if pair.second is None else 1].add(alone.step)
                continue
            found = sorted(self._tensors(pair.first, pair.second), key=lambda tensor: tensor.order)
            if not found:
                continue
            if self.common:
                self.only = [missing + len(new) for missing, new in zip(self.only, self.waiting, strict=True)]
            self.waiting = [set(), set()]
            self._pairs += 1
            if pair.first.step != self._newest:
                self.common, self._newest = self.common + 1, pair.first.step
            self._look(pair.first, found)
            if self.parted:
                return
        if self.common:
            self.verdict = "identical" if self.noise.is_exact else "unclear" if self.unclear else "within_noise"
            self.parted = self.unclear

    def _tensors(self, first: StepRecord, second: StepRecord) -> Iterator[TensorPair]:
        for tensor in tensors(first, second, self.alignment):
            subject = tensor.key[0]
            is_left_out = subject == "scalar" and tensor.statistics[0] in self._left_out
            if not is_left_out and subject not in self._without_history:
                yield tensor

    def _look(self, record: StepRecord, tensor_pairs: list[TensorPair]) -> None:
        measured = [(tensor, _gaps(tensor)) for tensor in tensor_pairs]
        self.values += sum(tensor.first.size for tensor in tensor_pairs)
        largest = max(float(gaps.max(initial=0.0)) for _, gaps in measured)
        if largest == 0.0:
            if self.noise.is_exact:
                self.exact_until = record.step
            return
        is_start = self._pairs == 1
        if self.noise.is_exact and not is_start:
            self._part(record, measured, "diverged")
        elif is_start:
            self._start(record, measured)
        elif self._learned >= _LEARN:
            self._part(record, measured, "diverged")
        self._learned += 1
        self.noise.is_exact = False
        for tensor, gaps in measured:
            self.noise.learn(tensor.key, gaps)

    def _start(self, record: StepRecord, measured: list[tuple[TensorPair, NDArray[np.float64]]]) -> None:
        """Judge the first common step by what rounding explains."""
        is_certain = False
        limits = self._rounding.explains([tensor for tensor, _ in measured])
        for (tensor, gaps), explained in zip(measured, limits, strict=True):
            beyond = (gaps > explained) | np.isinf(gaps)
            is_certain |= bool((beyond & (gaps > CERTAIN)).any())
            if beyond.any():
                column = _first_of(beyond, gaps)
                self.unclear.append(_divergence(record, tensor, column, float(gaps[column]), float(explained[column])))
        if is_certain:
            self.verdict, self.parted, self.unclear = "different_start", self.unclear, []

    def _part(
        self, record: StepRecord, measured: list[tuple[TensorPair, NDArray[np.float64]]], verdict: Verdict
    ) -> None:
        for tensor, gaps in measured:
            beyond = self.noise.beyond(tensor.key, gaps)
            if beyond.any():
                column = _first_of(beyond, gaps)
                floor = self.noise.floor(tensor.key, column)
                self.parted.append(_divergence(record, tensor, column, float(gaps[column]), floor))
        if self.parted:
            self.verdict = verdict


def _history(record: StepRecord | None) -> set[str]:
    """Return the subjects of the record whose values depend on earlier ones."""
    return set() if record is None else {block.layout.subject for block in record.blocks} & _OF_HISTORY


def _gaps(tensor: TensorPair) -> NDArray[np.float64]:
    if np.array_equal(tensor.first, tensor.second, equal_nan=True):
        return np.zeros(tensor.first.size)
    gaps: NDArray[np.float64] = distances(tensor.first[None], tensor.second[None], tensor.statistics)[0]
    return gaps


def _first_of(beyond: NDArray[np.bool_], gaps: NDArray[np.float64]) -> int:
    """Return the first statistic beyond its floor; prefer one that is finite in one run only."""
    torn = beyond & np.isinf(gaps)
    return int(np.argmax(torn if torn.any() else beyond))


def _divergence(record: StepRecord, tensor: TensorPair, column: int, gap: float, floor: float) -> Divergence:
    subject, site, call = tensor.key
    return Divergence(
        step=record.step,
        micro_step=record.micro_step,
        site=site,
        call=call,
        metric=f"{subject}/{tensor.statistics[column]}",
        first=float(tensor.first[column]),
        second=float(tensor.second[column]),
        difference=gap,
        floor=floor,
    )


_SHOWN = 12
#: Characters of a setting that are shown, and of a line of a program.
_LONGEST, _LONGEST_LINE = 60, 160
#: The call that seeds each generator, by the name of its recorded state.
_SEEDS: Final = {
    "python": "random.seed(0)",
    "numpy": "numpy.random.seed(0)",
    "torch": "torch.manual_seed(0)",
    "cuda": "torch.manual_seed(0)",
    "mindscope": "mindscope.framework.set_seed(0)",
}
#: Values that differ by more than this are shown with four digits.
_VISIBLE = 1e-2


def comparison_to_json(comparison: Comparison) -> dict[str, Json]:
    """Return the document of `compare --json`; values that JSON has no number for are words."""
    return {
        "runs": list(comparison.runs),
        "ranks": list(comparison.ranks),
        "verdict": comparison.verdict,
        "first_divergence": _divergence_to_json(comparison.first) if comparison.first else None,
        "also": [_divergence_to_json(divergence) for divergence in comparison.also],
        "common_steps": comparison.common,
        "missing_steps": list(comparison.missing),
        "apart": list(comparison.apart),
        "speaks_of": comparison.speaks_of,
        "exact_until": comparison.exact_until,
        "is_start_clear": comparison.is_start_clear,
        "values_compared": comparison.values,
        "renamed": dict(comparison.alignment.renamed),
        "only_first": list(comparison.alignment.only_first),
        "only_second": list(comparison.alignment.only_second),
        "differences": [
            {
                "area": difference.area,
                "name": difference.name,
                "first": difference.first,
                "second": difference.second,
                "note": difference.note,
            }
            for difference in comparison.differences
        ],
    }


def _divergence_to_json(divergence: Divergence) -> dict[str, Json]:
    return {
        "step": divergence.step,
        "micro_step": divergence.micro_step,
        "site": divergence.site,
        "call": divergence.call,
        "metric": divergence.metric,
        "first": _number(divergence.first),
        "second": _number(divergence.second),
        "relative_difference": _number(divergence.difference),
        "noise_floor": _number(divergence.floor),
    }


def _number(value: float) -> Json:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def render_comparison(comparison: Comparison) -> str:
    """Return the comparison for a terminal: where the runs diverge, and which settings differ."""
    lines = [
        f"{comparison.runs[0]} rank {comparison.ranks[0]}  against  {comparison.runs[1]} rank {comparison.ranks[1]}",
        "",
        _verdict_text(comparison),
    ]
    if comparison.first is not None:
        word = "noise before" if comparison.verdict == "diverged" else "rounding explains"
        lines += ["", f"   {_line(comparison.first, word)}"]
        if comparison.also:
            lines += ["", "   in the same step, in the order of the step:"]
            lines += [f"   {_line(divergence, word)}" for divergence in comparison.also[:_SHOWN]]
    if any(comparison.missing):
        lines += [
            "",
            f"steps that only one run has: {comparison.missing[0]} in the first, {comparison.missing[1]} in the second",
        ]
    if comparison.alignment.renamed:
        pairs = [f"{first} = {second}" for first, second in comparison.alignment.renamed.items()]
        lines += ["", f"sites with different names: {_some(pairs)}"]
    if comparison.differences:
        listed = list(_differences(comparison.differences))
        lines += ["", "they differ in:"]
        lines += [f"   {line}" for line in listed[: 2 * _SHOWN]]
        if len(listed) > 2 * _SHOWN:
            lines.append(f"   and {len(listed) - 2 * _SHOWN} more; --json lists all")
        if comparison.speaks_of:
            lines += ["", f"if the second run is a good one, the changed lines speak of {comparison.speaks_of}"]
    elif comparison.verdict != "incomparable":
        lines += ["", "data, configuration, structure and environment are the same, as far as they were recorded"]
    return "\n".join(lines)


def _verdict_text(comparison: Comparison) -> str:
    count = f"{comparison.common} common steps compared, {comparison.values:,} values"
    if comparison.verdict == "identical" and comparison.apart:
        return f"equal to the bit where both have recorded: {count}; but {'; '.join(comparison.apart)}"
    if comparison.verdict == "identical":
        return f"identical: {count}, equal to the bit"
    if comparison.verdict == "within_noise":
        return f"within noise: {count}; they differ from the start, but never by more than rounding explains"
    if comparison.verdict == "incomparable" or comparison.first is None:
        return "incomparable: they have no value of one site, metric and step in common"
    if comparison.verdict == "different_start":
        return f"different from the first common step on ({comparison.first.step})"
    if comparison.verdict == "unclear":
        return (
            f"cannot tell: {count}; from the first common step ({comparison.first.step}) on they differ by more than "
            "the rounding of their parameters' dtypes explains, but not by enough to exclude rounding; unless "
            "something was computed in a lower precision, a computation differs: dump the tensors of the first site "
            "below in both runs, and compare them with --tensors"
        )
    before = "within rounding before" if comparison.is_start_clear else "from the start, perhaps by more than rounding"
    before = f"equal to the bit up to step {comparison.exact_until}" if comparison.exact_until >= 0 else before
    return f"they part at step {comparison.first.step} ({before}; {count}):"


def _line(divergence: Divergence, noise: str) -> str:
    call = f" call {divergence.call}" if divergence.call else ""
    micro = f" micro-step {divergence.micro_step}" if divergence.micro_step else ""
    site = display_site(divergence.site) if not divergence.metric.startswith("scalar/") else ""
    gap = f"{divergence.difference:.3g}" if math.isfinite(divergence.difference) else "one of them is not finite"
    floor = f", {noise} {divergence.floor:.3g}" if divergence.floor else ""
    digits = 4 if divergence.difference > _VISIBLE else 9
    values = f"{divergence.first:.{digits}g} and {divergence.second:.{digits}g}"
    return f"{site}{call}{micro} {divergence.metric}: {values} (relative {gap}{floor})".strip()


def _differences(differing: Sequence[Difference]) -> Iterator[str]:
    """Yield one line per difference; all generators share one line, since their checksums mean nothing to a reader."""
    generators = [
        difference.name.removeprefix(GENERATOR) for difference in differing if difference.name.startswith(GENERATOR)
    ]
    for difference in differing:
        if not difference.name.startswith(GENERATOR):
            yield _difference(difference)
        elif generators:
            yield (
                f"random generators start from different states: {', '.join(generators)}; "
                f"seed the ones that the training uses{_seeds(generators)}"
            )
            generators = []


def _seeds(generators: Sequence[str]) -> str:
    """Return the calls that seed these generators."""
    calls = dict.fromkeys(_SEEDS[name.partition(":")[0]] for name in generators if name.partition(":")[0] in _SEEDS)
    return f", as {', '.join(calls)}" if calls else ""


def _difference(difference: Difference) -> str:
    if difference.area == "module" and difference.first is None:
        return f"module {difference.name}: only in the second"
    if difference.area == "module" and difference.second is None:
        return f"module {difference.name}: only in the first"
    if difference.area in ("start", "data"):
        note = f"; {difference.note}" if difference.note else ""
        return f"{difference.name}: checksums {_word(difference.first)} and {_word(difference.second)}{note}"
    longest = _LONGEST_LINE if difference.area == "program" else _LONGEST
    first, second = (_word(value, longest) for value in (difference.first, difference.second))
    return f"{difference.area} {difference.name}: {first} and {second}"


def _word(value: Json, longest: int = _LONGEST) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _some(words: list[str]) -> str:
    shown = ", ".join(words[:_SHOWN])
    return shown if len(words) <= _SHOWN else f"{shown} and {len(words) - _SHOWN} more"
