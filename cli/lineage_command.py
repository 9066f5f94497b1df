"""`mindscope lineage STORE` compares the settings and results of runs, and ranks parameters by importance."""

from typing import TYPE_CHECKING, Annotated

import typer

from .output import add_row, console, print_json, table
from .store_options import DEFAULT_STORE, JsonOption, SameStoreOption, StoreArgument, open_existing

if TYPE_CHECKING:
    from ..insight.lineage import Importance, Provenance
    from ..storage import Json

_ALL: list[str] = []
#: Default columns of the table; our choice: what fits a line.
_COLUMNS = 10
_BESIDE = ("result.loss", "worst")
_RESULT = "result."

_Where = Annotated[
    list[str],
    typer.Option(
        "--where", metavar="CONDITION", help="As 'lr > 0.01 and name ~ gpt*'; may be repeated, all must hold."
    ),
]
_Fields = Annotated[list[str], typer.Option("--field", metavar="NAME", help="A column; may be repeated.")]


def lineage(
    store: StoreArgument = DEFAULT_STORE,
    same_store: SameStoreOption = "",
    where: _Where = _ALL,
    sort: Annotated[str, typer.Option("--sort", metavar="FIELD", help="Least first; '-FIELD' for largest first.")] = "",
    field: _Fields = _ALL,
    explain: Annotated[
        str, typer.Option("--explain", metavar="RESULT", help="Which parameters this result depends on, as 'loss'.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many runs are read, newest first.")] = 1000,
    as_document: JsonOption = False,
) -> int:
    """Compare the settings and results of runs: filter, sort, and rank the parameters that a result depends on.

    `result.loss` is a run's last loss, `result.loss.median` the median of the last tenth, `.min` and `.max` the
    smallest and the largest; the same holds for every other logged value.
    """
    store = same_store or store
    from ..insight.lineage import importance, ordered, parse_query
    from ..insight.lineage import lineage as lineage_of

    queries = [parse_query(text) for text in where]
    with open_existing(store) as opened:
        rows = lineage_of(opened, limit=limit)
    for query in queries:
        rows = query.select(rows)
    if sort:
        rows = ordered(rows, sort.removeprefix("-"), descending=sort.startswith("-"))
    found = importance(rows, explain) if explain else ()
    if as_document:
        print_json({"store": opened.url, "runs": rows, "importance": found})
    elif explain:
        _print_importance(explain, found)
    else:
        _print_runs(opened.url, rows, field)
    return 0


def _print_runs(store: str, rows: "tuple[Provenance, ...]", fields: list[str]) -> None:
    from ..insight.lineage import RESULT_WORDS, known_fields, resolve

    if not rows:
        console().print(f"no run in {store!r} meets the conditions")
        return
    known = known_fields(rows)
    names = [resolve(name, known) for name in fields] if fields else _default_columns(rows, known)
    listing = table("", "id", "name", *names)
    for row in rows:
        add_row(listing, row.run, str(row.fields["name"]), *(_cell(row.fields.get(name)) for name in names))
    console().print(listing)
    if any(name.startswith(_RESULT) for name in names):
        console().print(RESULT_WORDS, markup=False)


def _default_columns(rows: "tuple[Provenance, ...]", known: tuple[str, ...]) -> list[str]:
    """Return the settings in which the runs differ, tags first, then their results."""
    from ..insight.lineage import differing_settings

    return [*differing_settings(rows)[: _COLUMNS - len(_BESIDE)], *(name for name in _BESIDE if name in known)]


def _cell(value: "Json") -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_importance(result: str, found: "tuple[Importance, ...]") -> None:
    from ..insight.lineage import RESULT_WORDS

    if not found:
        console().print(f"no parameter differs over six runs or more that have the result {result!r}")
        return
    listing = table(f"what {result} depends on", "parameter", "share of variance", "rank correlation", "p", "runs")
    for parameter in found:
        correlation = "" if parameter.correlation != parameter.correlation else f"{parameter.correlation:+.2f}"
        add_row(
            listing,
            parameter.field,
            f"{parameter.share:.2f}",
            correlation,
            f"{parameter.p_value:.3f}",
            str(parameter.runs),
        )
    console().print(listing)
    console().print(RESULT_WORDS, markup=False)
