"""Describes a run, its settings and its results as one flat row of named fields."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ...storage import ROOT_SITE, Json, Run, Series, Store, Structure
from ..result_scalars import is_result
from ..script_arguments import named_arguments

__all__ = ["RESULT_WORDS", "Provenance", "lineage", "provenance"]

#: What the fields `result.*` hold of a scalar, in words.
RESULT_WORDS = (
    "result.NAME is the last value that was logged of NAME, result.NAME.median the median of the last tenth of them; "
    "result.NAME.min and .max are of all of them"
)
#: Batches whose checksums make that of the data, and how far the first of them are looked for. Our choice: other data
#: or another order shows at once, and runs that stopped early have as many.
_BATCHES, _LOOKED_AT = 8, 200


@dataclass(frozen=True, slots=True)
class Provenance:
    """One run.

    Args:
        fields: By dotted name, in this order: `name`, `state`, ... of the run; `tag.*`; `optimizer`, `optimizer.*`
            (options of its first group; `optimizer.1.*` of a second optimizer); `model.*`; `data.checksum`; `git.*`;
            `script`; `argument.*` (numbers as numbers); `machine.*`; `package.*`; `config.*`; `result.*` (as
            `RESULT_WORDS` says). Absent is what the run has not recorded.
    """

    run: str
    fields: Mapping[str, Json]

    def number(self, field: str) -> float:
        """Return the field as a number; NaN if it is absent or not a number."""
        value = self.fields.get(field)
        return float(value) if isinstance(value, int | float) else float("nan")


def lineage(store: Store, *, limit: int = 1000) -> tuple[Provenance, ...]:
    """Return the runs of the store, newest first."""
    return tuple(provenance(store, run) for run in store.runs(limit=limit))


def provenance(store: Store, run: Run) -> Provenance:
    """Return the settings and results of the run, as its lowest rank recorded them."""
    rank = run.first_rank
    structure = store.structure(run.id, rank=rank)
    parts = (
        _of_run(run),
        _under("tag", run.tags),
        _of_optimizers(structure),
        _of_model(store, run, rank, structure),
        _of_data(store, run, rank),
        _of_host(run),
        _under("config", run.config),
        _results(store, run, rank),
    )
    return Provenance(run.id, {name: value for part in parts for name, value in part if value is not None})


def _of_run(run: Run) -> Iterator[tuple[str, Json]]:
    yield from (("name", run.name), ("state", run.state), ("kind", run.kind), ("framework", run.framework))
    yield from (("created_at", run.created_at), ("seconds", run.updated_at - run.created_at))
    yield from (("steps", run.last_step + 1), ("ranks", len(run.ranks)), ("parent", run.parent))
    yield from (("findings", run.findings), ("worst", run.worst), ("remark", run.remark or None))


def _of_optimizers(structure: Structure) -> Iterator[tuple[str, Json]]:
    for number, optimizer in enumerate(structure.optimizers):
        prefix = f"optimizer.{number}" if number else "optimizer"
        yield prefix, optimizer.kind
        yield from _under(prefix, optimizer.groups[0] if optimizer.groups else {})


def _of_model(store: Store, run: Run, rank: int, structure: Structure) -> Iterator[tuple[str, Json]]:
    if structure.parameters:
        yield "model.elements", sum(math.prod(info.shape) for info in structure.parameters)
        modules = [f"{module.site}:{module.kind}" for module in structure.modules]
        parameters = [f"{info.site}:{info.shape}" for info in structure.parameters]
        yield "model.checksum", _checksum([*modules, "", *parameters])
    for event in store.events(run.id, rank=rank, kind="initial_checksum", limit=1):
        yield "model.initial_checksum", str(event.data.get("checksum"))


def _of_data(store: Store, run: Run, rank: int) -> Iterator[tuple[str, Json]]:
    """Return one checksum over the first batches, in their order."""
    seen = store.series(run.id, ROOT_SITE, "scalar/batch/checksum", rank=rank, last=_LOOKED_AT)
    if len(seen.values):
        yield "data.checksum", _checksum([float(value).hex() for value in seen.values[:_BATCHES]])


def _of_host(run: Run) -> Iterator[tuple[str, Json]]:
    host = dict(run.host)
    git, packages = host.pop("git", None), host.pop("packages", None)
    yield from _under("git", git if isinstance(git, dict) else {})
    yield "script", host.pop("script", None)
    yield from _under("argument", {name: _value(value) for name, value in named_arguments(host).items()})
    host.pop("arguments", None)
    host.pop("pid", None)
    yield from _under("machine", host)
    yield from _under("package", packages if isinstance(packages, dict) else {})


def _results(store: Store, run: Run, rank: int) -> Iterator[tuple[str, Json]]:
    """Return each result scalar's last value, the median of the last tenth of its values, minimum and maximum."""
    for metric in store.metrics(run.id, rank=rank):
        subject, _, name = metric.partition("/")
        if subject != "scalar" or not is_result(name):
            continue
        series = store.series(run.id, ROOT_SITE, metric, rank=rank)
        values = series.values
        if len(values):
            yield f"result.{name}", float(values[-1])
            yield f"result.{name}.median", _level(store, run, series)
        finite = values[np.isfinite(values)]
        if len(finite):
            yield f"result.{name}.min", float(finite.min())
            yield f"result.{name}.max", float(finite.max())


def _level(store: Store, run: Run, series: Series) -> float:
    """Return the median of the last tenth of a scalar's values, of which a thinned series has the extremes alone."""
    count = max(1, series.total // 10)
    if len(series.values) < series.total:
        first = int(series.steps[-1] - (series.steps[-1] - series.steps[0]) // 10)
        series = store.series(run.id, ROOT_SITE, series.metric, rank=series.rank, first=first, limit=count * 4)
    return float(np.median(series.values[-count:]))


def _value(word: Json) -> Json:
    try:
        number = float(word) if isinstance(word, str) else math.nan
    except ValueError:
        return word
    return number if math.isfinite(number) else word


def _under(prefix: str, values: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _under(f"{prefix}.{name}", value)
        else:
            yield f"{prefix}.{name}", value


def _checksum(words: list[str]) -> str:
    return blake2b("\n".join(words).encode(), digest_size=8).hexdigest()
