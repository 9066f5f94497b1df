"""In what two runs differ besides their numbers: arguments, configuration, tags, structure, optimizers, environment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ...storage import Json, Run, Structure
from ..arguments import named_arguments
from .align import Alignment

__all__ = ["Difference", "differences"]

Area = Literal[
    "start", "data", "argument", "configuration", "tags", "environment", "optimizer", "parameter", "module", "run"
]

#: What differs between any two processes, and tells nothing.
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
    """All that differs, the most telling first: parameters, optimizers, modules, then what people and machines add."""
    one, other = runs
    return (
        *_parameters(structures, alignment),
        *_optimizers(structures),
        *_modules(structures, alignment),
        *_mapped("argument", named_arguments(one.host), named_arguments(other.host)),
        *_mapped("configuration", one.config, other.config),
        *_mapped("tags", one.tags, other.tags),
        *_mapped("environment", _surroundings(one), _surroundings(other)),
        *_mapped("run", _plain(one), _plain(other)),
    )


def _surroundings(run: Run) -> dict[str, Json]:
    """All of the host but the arguments, which have an area of their own."""
    return {name: value for name, value in run.host.items() if name != "arguments"}


def _plain(run: Run) -> dict[str, Json]:
    return {"framework": run.framework, "ranks": list(run.ranks), "kind": run.kind}


def _parameters(structures: tuple[Structure, Structure], alignment: Alignment) -> Iterator[Difference]:
    others = {one.site: one for one in structures[1].parameters}
    for one in structures[0].parameters:
        other = others.get(alignment.pairs.get(one.site, one.site))
        if other is None:
            continue
        for name in ("shape", "dtype", "requires_grad", "group"):
            a, b = getattr(one, name), getattr(other, name)
            if a != b:
                yield Difference("parameter", f"{one.site}.{name}", _json(a), _json(b))


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
    others = {one.site: one for one in structures[1].modules}
    for site in alignment.only_first:
        yield Difference("module", site, "present", None)
    for site in alignment.only_second:
        yield Difference("module", site, None, "present")
    for one in structures[0].modules:
        other = others.get(alignment.pairs.get(one.site, one.site))
        if other is not None and one.kind != other.kind:
            yield Difference("module", one.site, one.kind, other.kind)


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
