"""Pairs the sites of two runs, and reads their recordings side by side, step by step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ...storage import Block, StepRecord, Structure

__all__ = ["Alignment", "ComparedStep", "RecordPair", "TensorPair", "align", "by_step", "in_step", "tensors"]

#: Prefixes that wrappers add to names: DataParallel and DDP, torch.compile, FSDP.
_PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of sites.

    Args:
        pairs: Site of the first run, site of the second.
        only_first: Sites that the second run has no counterpart for.
        only_second: The reverse.
    """

    pairs: Mapping[str, str] = field(default_factory=dict)
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()

    @property
    def renamed(self) -> dict[str, str]:
        """The pairs whose names differ."""
        return {first: second for first, second in self.pairs.items() if first != second}


def align(first: Structure, second: Structure) -> Alignment:
    """Return the pairs of modules and of parameters of two models; names alone do not decide.

    Names decide as far as they go. What is left is matched in the order of the model: modules of one class, parameters
    of one shape, as the longest common subsequence has them.
    """
    modules = _aligned(
        [module.site for module in first.modules], [module.site for module in second.modules], _kinds(first, second)
    )
    parameters = _aligned(
        [parameter.site for parameter in first.parameters],
        [parameter.site for parameter in second.parameters],
        _shapes(first, second),
    )
    return Alignment(
        {**modules.pairs, **parameters.pairs},
        (*modules.only_first, *parameters.only_first),
        (*modules.only_second, *parameters.only_second),
    )


def _kinds(first: Structure, second: Structure) -> tuple[dict[str, object], dict[str, object]]:
    return {module.site: module.kind for module in first.modules}, {
        module.site: module.kind for module in second.modules
    }


def _shapes(first: Structure, second: Structure) -> tuple[dict[str, object], dict[str, object]]:
    return {parameter.site: parameter.shape for parameter in first.parameters}, {
        parameter.site: parameter.shape for parameter in second.parameters
    }


def _bare(site: str) -> str:
    """Return the name without the prefixes that wrappers add; a wrapper's own site becomes that of the model."""
    for prefix in _PREFIXES:
        site = site.replace(prefix, "")
        if site == prefix[:-1]:
            return ""
    return site


def _aligned(
    first: Sequence[str], second: Sequence[str], words: tuple[Mapping[str, object], Mapping[str, object]]
) -> Alignment:
    pairs = {site: site for site in first if site in set(second)}
    by_bare: dict[str, str] = {}
    for site in second:
        if site not in pairs.values():
            by_bare.setdefault(_bare(site), site)
    for site in first:
        if site not in pairs and (other := by_bare.pop(_bare(site), None)) is not None:
            pairs[site] = other
    taken = set(pairs.values())
    left = [site for site in first if site not in pairs]
    right = [site for site in second if site not in taken]
    matcher = SequenceMatcher(None, [words[0][s] for s in left], [words[1][s] for s in right], autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs.update(zip(left[block.a : block.a + block.size], right[block.b : block.b + block.size], strict=True))
    taken = set(pairs.values())
    return Alignment(
        pairs,
        tuple(site for site in first if site not in pairs),
        tuple(site for site in second if site not in taken),
    )


#: Suffixes of scalars and statistics that describe the machine, and of checksums, which have no distance.
_CLOCKS = ("seconds", "_s", "per_second", "throughput", "memory", "bytes", "checksum")
#: The order in which a step computes its subjects; others come last.
_PHASES = {
    "batch": 0,
    "target": 0,
    "input": 1,
    "activation": 1,
    "scalar": 2,
    "activation_grad": 3,
    "input_grad": 3,
    "gradient": 4,
}
_LAST = 8
_PHASES |= {"optimizer": 5, "update": 6, "weight": 7}


@dataclass(frozen=True, slots=True, eq=False)
class RecordPair:
    """One micro-step of both recordings; None where a recording lacks it."""

    first: StepRecord | None
    second: StepRecord | None


@dataclass(frozen=True, slots=True, eq=False)
class ComparedStep:
    """One optimizer step that both recordings have, with at least one micro-step of each."""

    number: int
    first: tuple[StepRecord, ...]
    second: tuple[StepRecord, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TensorPair:
    """The statistics that both recordings have of one tensor.

    Args:
        order: Sorts tensors as a step brings them forth.
        key: Subject, site in the first run, call.
        first: `(statistics,)`, as `second`.
    """

    order: tuple[int, int]
    key: tuple[str, str, int]
    statistics: tuple[str, ...]
    first: NDArray[np.float64]
    second: NDArray[np.float64]


def in_step(first: Iterator[StepRecord], second: Iterator[StepRecord]) -> Iterator[RecordPair]:
    """Yield both recordings, merged by step and micro-step."""
    a, b = next(first, None), next(second, None)
    while a is not None or b is not None:
        place_a = (a.step, a.micro_step) if a is not None else (np.inf, 0)
        place_b = (b.step, b.micro_step) if b is not None else (np.inf, 0)
        yield RecordPair(a if place_a <= place_b else None, b if place_b <= place_a else None)
        if place_a <= place_b:
            a = next(first, None)
        if place_b <= place_a:
            b = next(second, None)


def by_step(first: Iterator[StepRecord], second: Iterator[StepRecord]) -> Iterator[ComparedStep]:
    """Yield the optimizer steps that both recordings have, oldest first."""
    for number, record_pairs in groupby(in_step(first, second), key=_step):
        pairs = [(pair.first, pair.second) for pair in record_pairs]
        first_records = tuple(record for record, _ in pairs if record is not None)
        second_records = tuple(record for _, record in pairs if record is not None)
        if first_records and second_records:
            yield ComparedStep(number, first_records, second_records)


def _step(pair: RecordPair) -> int:
    record = pair.first or pair.second
    assert record is not None  # one of both recordings has the record
    return record.step


def tensors(first: StepRecord, second: StepRecord, alignment: Alignment) -> Iterator[TensorPair]:
    """Yield the tensors and scalars that both records hold, in no order; leave out scalars of the clock."""
    for name in first.scalars.keys() & second.scalars.keys():
        if not name.endswith(_CLOCKS):
            values = np.array([first.scalars[name]]), np.array([second.scalars[name]])
            yield TensorPair((_phase(name), 0), ("scalar", "", 0), (name,), *values)
    others = {}
    for block in second.blocks:
        for row, key in _rows(block):
            others[key] = (block, row)
    for block in first.blocks:
        names = block.layout.statistics
        for row, (subject, site, call) in _rows(block):
            found = others.get((subject, alignment.pairs.get(site, site), call))
            if found is None:
                continue
            other, other_row = found
            shared = _shared(names, other.layout.statistics)
            phase = _PHASES.get(subject.partition("/")[0], _LAST)
            backwards = subject in ("activation_grad", "input_grad", "gradient")
            yield TensorPair(
                (phase, -row if backwards else row),
                (subject, site, call),
                shared,
                _chosen(block, row, shared),
                _chosen(other, other_row, shared),
            )


def _phase(scalar: str) -> int:
    """Return where a scalar belongs in a step: with the loss, with the batch that it describes, or at the end."""
    return _PHASES["scalar"] if scalar == "loss" else _PHASES.get(scalar.partition("/")[0], _LAST)


def _rows(block: Block) -> Iterator[tuple[int, tuple[str, str, int]]]:
    layout = block.layout
    calls = layout.calls or (0,) * len(layout.sites)
    for row, (site, call) in enumerate(zip(layout.sites, calls, strict=True)):
        if block.present is None or block.present[row]:
            yield row, (layout.subject, site, call)


@cache
def _shared(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in first if name in second and not name.endswith(_CLOCKS))


def _chosen(block: Block, row: int, names: tuple[str, ...]) -> NDArray[np.float64]:
    if names == block.layout.statistics:
        whole: NDArray[np.float64] = block.values[row]
        return whole
    chosen: NDArray[np.float64] = block.values[row, [block.layout.statistics.index(name) for name in names]]
    return chosen
