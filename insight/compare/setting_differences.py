"""Lists the settings in which two runs differ: arguments, configuration, structure, first weights, data."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ...storage import ROOT_SITE, Json, Run, Series, Store, Structure
from ..script_arguments import named_arguments
from .pairing import Alignment

__all__ = ["GENERATOR", "Difference", "differences", "origins"]

Area = Literal[
    "start",
    "data",
    "program",
    "argument",
    "configuration",
    "tags",
    "environment",
    "optimizer",
    "parameter",
    "module",
    "run",
]

#: Fields that differ between any two processes.
_TRIVIAL = frozenset({"pid", "started"})


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that differs; None where a run does not have it.

    Args:
        note: How much of it differs, where that can be counted.
    """

    area: Area
    name: str
    first: Json
    second: Json
    note: str = ""


def differences(
    runs: tuple[Run, Run], structures: tuple[Structure, Structure], alignment: Alignment
) -> tuple[Difference, ...]:
    """Return every setting that differs, the most telling first: parameters, optimizers, modules, then the rest."""
    first, second = runs
    return (
        *_parameters(structures, alignment),
        *_optimizers(structures),
        *_modules(structures, alignment),
        *_mapped("argument", named_arguments(first.host), named_arguments(second.host)),
        *_mapped("configuration", first.config, second.config),
        *_mapped("tags", first.tags, second.tags),
        *_mapped("environment", _surroundings(first), _surroundings(second)),
        *_mapped("run", _plain(first), _plain(second)),
    )


def _surroundings(run: Run) -> dict[str, Json]:
    """Return the host's fields without the arguments, which have an area of their own."""
    return {name: value for name, value in run.host.items() if name != "arguments"}


def _plain(run: Run) -> dict[str, Json]:
    return {"framework": run.framework, "ranks": list(run.ranks), "kind": run.kind}


def _parameters(structures: tuple[Structure, Structure], alignment: Alignment) -> Iterator[Difference]:
    others = {parameter.site: parameter for parameter in structures[1].parameters}
    for parameter in structures[0].parameters:
        other = others.get(alignment.pairs.get(parameter.site, parameter.site))
        if other is None:
            continue
        for name in ("shape", "dtype", "requires_grad", "group"):
            a, b = getattr(parameter, name), getattr(other, name)
            if a != b:
                yield Difference("parameter", f"{parameter.site}.{name}", _json(a), _json(b))


def _optimizers(structures: tuple[Structure, Structure]) -> Iterator[Difference]:
    def flat(structure: Structure) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for number, optimizer in enumerate(structure.optimizers):
            found[f"{number}"] = optimizer.kind
            for group, options in enumerate(optimizer.groups):
                found.update({f"{number}.group {group}.{name}": value for name, value in options.items()})
        return found

    yield from _mapped("optimizer", flat(structures[0]), flat(structures[1]))


def _modules(structures: tuple[Structure, Structure], alignment: Alignment) -> Iterator[Difference]:
    others = {module.site: module for module in structures[1].modules}
    for site in alignment.only_first:
        yield Difference("module", site, "present", None)
    for site in alignment.only_second:
        yield Difference("module", site, None, "present")
    for module in structures[0].modules:
        other = others.get(alignment.pairs.get(module.site, module.site))
        if other is not None and module.kind != other.kind:
            yield Difference("module", module.site, module.kind, other.kind)


def _mapped(area: Area, first: Mapping[str, Json], second: Mapping[str, Json]) -> Iterator[Difference]:
    a, b = dict(_flat(first)), dict(_flat(second))
    for name in [*a, *(name for name in b if name not in a)]:
        if a.get(name) != b.get(name) and name not in _TRIVIAL:
            yield Difference(area, name, a.get(name), b.get(name))


def _flat(values: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _json(value: object) -> Json:
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)


#: Prefix of the name of a difference between generator states; the generator's name follows.
GENERATOR: Final = "random state of "
#: Checksums of every batch and its labels, and their names.
_FED = (("scalar/batch/checksum", "the batch"), ("scalar/target/checksum", "the labels"))
#: Points of a series that are read; longer series are sampled. Our choice: some tens of megabytes.
_LOOKED_AT = 1_000_000


def origins(
    stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int], alignment: Alignment
) -> tuple[Difference, ...]:
    """Return which first weights, generator states and first batches differ.

    What only one of the runs has recorded is no difference.
    """
    return (
        *_weights(stores, runs, ranks, alignment),
        *_starts(stores, runs, ranks),
        *_fed(stores, runs, ranks),
    )


def _starts(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int]) -> Iterator[Difference]:
    first, second = (dict(_generators(store, run, rank)) for store, run, rank in zip(stores, runs, ranks, strict=True))
    for name in [name for name in first if name in second]:
        if first[name] != second[name]:
            yield Difference("start", name, first[name], second[name])


def _weights(
    stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int], alignment: Alignment
) -> Iterator[Difference]:
    """Yield the difference of the initial weights, of the parameters that both runs have recorded."""
    events = [
        event
        for store, run, rank in zip(stores, runs, ranks, strict=True)
        for event in store.events(run.id, rank=rank, kind="initial_checksum", limit=1)
    ]
    if len(events) < 2 or events[0].data.get("checksum") == events[1].data.get("checksum"):
        return
    are_equal = _are_equal(events[0].data.get("parameters"), events[1].data.get("parameters"), alignment)
    if not are_equal or not all(are_equal):
        note = f"{are_equal.count(False)} of the {len(are_equal)} parameters that both recorded differ"
        first, second = (event.data.get("checksum") for event in events)
        yield Difference("start", "initial weights", first, second, note if are_equal else "")


def _are_equal(first: Json, second: Json, alignment: Alignment) -> list[bool]:
    """Return, for each parameter of which both have a checksum, whether it is the same."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return []
    pairs = ((site, alignment.pairs.get(site, site)) for site in first)
    return [first[site] == second[other] for site, other in pairs if other in second]


def _generators(store: Store, run: Run, rank: int) -> Iterator[tuple[str, Json]]:
    """Yield the checksums of the random generators at the start of the run, with their names."""
    for event in store.events(run.id, rank=rank, kind="random_state", limit=1):
        generators = event.data.get("generators")
        for name, state in generators.items() if isinstance(generators, dict) else ():
            yield f"{GENERATOR}{name}", state


def _fed(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int]) -> Iterator[Difference]:
    for metric, name in _FED:
        first, second = (
            _by_step(store.series(run.id, ROOT_SITE, metric, rank=rank, limit=_LOOKED_AT))
            for store, run, rank in zip(stores, runs, ranks, strict=True)
        )
        shared = sorted(first.keys() & second.keys())
        odd = [step for step in shared if first[step] != second[step]]
        if odd:
            note = f"{len(odd)} of the {len(shared)} steps that both recorded differ"
            yield Difference("data", f"{name} of step {odd[0]}", first[odd[0]], second[odd[0]], note)


def _by_step(series: Series) -> dict[int, str]:
    """Return the checksums of each step in hexadecimal, one per micro-step."""
    found: dict[int, list[str]] = {}
    for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
        found.setdefault(step, []).append(f"{int(value):x}" if math.isfinite(value) else "nothing")
    return {step: " ".join(words) for step, words in found.items()}
