"""Small hand-written runs: the examples beside each rule, which are its first tests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ..storage import (
    Block,
    Event,
    Json,
    Layout,
    ModuleInfo,
    OptimizerInfo,
    ParameterInfo,
    StepRecord,
    Structure,
    split_metric,
)

#: The statistics of one tensor as every probe records them, and what an unremarkable tensor of 64 values shows.
_ORDINARY: dict[str, float] = {
    "l2_norm": 8.0,
    "mean": 0.0,
    "std": 1.0,
    "min": -2.0,
    "max": 2.0,
    "zeros": 0.0,
    "nans": 0.0,
    "pos_infs": 0.0,
    "neg_infs": 0.0,
    "size": 64.0,
}
_WITH_PARAMETERS = ("dense", "linear", "conv", "embedding")


@dataclass(frozen=True, slots=True)
class Recording:
    """What a small run left behind, written by hand.

    Args:
        series: Values by step of `"site subject/statistic"`, or `"scalar/name"`; a plain number holds for every step,
            None is a step in which nothing was observed. Statistics not named are those of an unremarkable tensor.
        structure: The model's modules, parameters and optimizers.
        events: What happened, each at its own step.
        skipped: Steps that the optimizer did not apply.
        config: The run's configuration.
        steps: Number of steps; by default the length of the longest series.
    """

    series: Mapping[str, float | Sequence[float | None]] = field(default_factory=dict)
    structure: Structure = field(default_factory=Structure)
    events: tuple[Event, ...] = ()
    skipped: tuple[int, ...] = ()
    config: Mapping[str, Json] = field(default_factory=dict)
    steps: int = 0

    def records(self) -> Iterator[StepRecord]:
        """Yield the records, oldest first."""
        lengths = [len(values) for values in self.series.values() if isinstance(values, Sequence)]
        for step in range(self.steps or max(lengths, default=1)):
            yield StepRecord(
                step=step,
                time=float(step),
                skipped=step in self.skipped,
                blocks=tuple(self._blocks(step)),
                scalars=dict(self._scalars(step)),
                events=tuple(event for event in self.events if event.step == step),
            )

    def _scalars(self, step: int) -> Iterator[tuple[str, float]]:
        for name, values in self.series.items():
            subject, scalar = name.split("/", 1)
            value = _at(values, step)
            if subject == "scalar" and value is not None:
                yield scalar, value

    def _blocks(self, step: int) -> Iterator[Block]:
        subjects: dict[str, dict[str, dict[str, float | None]]] = {}
        for name, values in self.series.items():
            site, _, metric = name.rpartition(" ")
            subject, statistic = split_metric(metric)
            if subject != "scalar":
                subjects.setdefault(subject, {}).setdefault(site, {})[statistic] = _at(values, step)
        for subject, sites in subjects.items():
            yield _block(subject, sites)


def apart(*values: float, by: int = 10) -> tuple[float | None, ...]:
    """Return a series with one value every `by` steps, as of a subject that is recorded rarely."""
    return tuple(value if at == 0 else None for value in values for at in range(by))


def chain(
    *modules: str,
    frozen: Sequence[str] = (),
    not_stepped: Sequence[str] = (),
    optimizer: str = "SGD",
    shape: tuple[int, ...] = (8, 8),
) -> Structure:
    """Return the structure of modules `"site:Kind"` in sequence, their weights stepped by one optimizer.

    Args:
        frozen: Weights that require no gradient.
        not_stepped: Weights that the optimizer does not know.
        shape: Shape of every weight.
    """
    pairs = [tuple(module.split(":")) for module in modules]
    sources = {later: (earlier,) for (earlier, _), (later, _) in pairwise(pairs)}
    leaves = [ModuleInfo(site, kind, at, sources.get(site, ())) for at, (site, kind) in enumerate(pairs)]
    weights = [f"{site}.weight" for site, kind in pairs if any(word in kind.lower() for word in _WITH_PARAMETERS)]
    return Structure(
        modules=(*leaves, ModuleInfo("", "Network", len(leaves), is_leaf=False)),
        parameters=tuple(
            ParameterInfo(
                site,
                shape,
                "float32",
                requires_grad=site not in frozen,
                group=None if site in not_stepped else (0, 0),
                storage=at + 1,
            )
            for at, site in enumerate(weights)
        ),
        optimizers=(OptimizerInfo(optimizer, ({"lr": 0.1},)),),
    )


def linked(structure: Structure) -> Structure:
    """Return the structure with every module given the unchanged output of the one before."""
    return replace(structure, modules=tuple(replace(module, direct=module.inputs) for module in structure.modules))


def _at(values: float | Sequence[float | None], step: int) -> float | None:
    if not isinstance(values, Sequence):
        return values
    return values[step] if step < len(values) else None


def _block(subject: str, sites: Mapping[str, Mapping[str, float | None]]) -> Block:
    named = {name: 0.0 for statistics in sites.values() for name in statistics}
    ordinary = _ORDINARY | {name: value for name, value in named.items() if name not in _ORDINARY}
    layout = Layout(subject, tuple(sites), tuple(ordinary), ("float64",) * len(ordinary))
    rows = [[statistics.get(name, value) for name, value in ordinary.items()] for statistics in sites.values()]
    present = np.array([None not in row for row in rows])
    values = np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)
    return Block(layout, values, present)
