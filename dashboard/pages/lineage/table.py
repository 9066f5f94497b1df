"""The table of runs by parameters and results."""

from collections.abc import Sequence

import dash
from dash import Output, State

from ....insight import InsightError
from ....insight.lineage import Provenance, differing_settings, known_fields, resolve
from ...components import notice
from ...components.choices import with_chosen
from ...components.lineage_grid import lineage_columns, lineage_rows
from ...data import Reader
from ...data.lineages import MOST, RESULT, Known, Origins, is_numeric, matching, results_of, short_name
from ...words import count, prose
from .ids import ASKED, AXES, Id


def chosen_fields(rows: Sequence[Provenance], chosen: Sequence[str] | None) -> list[str]:
    """The parameters that are shown: those that were chosen, else the first in which the runs differ.

    Raises:
        UnknownField: No run has one that was chosen.
    """
    known = known_fields(rows)
    if chosen and rows:
        return list(dict.fromkeys(resolve(name, known) for name in chosen))[:AXES]
    return list(differing_settings(rows)[:AXES])


def connect_table(app: dash.Dash, reader: Reader, origins: Origins) -> None:
    """Fills the table, counts its runs, and offers their parameters and results."""

    @app.callback(
        Output(Id.grid, "rowData"),
        Output(Id.grid, "columnDefs"),
        Output(Id.counts, "children"),
        Output(Id.note, "children"),
        Output(Id.result, "data"),
        Output(Id.fields, "data"),
        *ASKED,
        State(Id.order, "data"),
    )
    def fill(
        where: str | None, result: str | None, fields: list[str] | None, _: object, order: str | None
    ) -> tuple[object, ...]:
        known = origins.look()
        everything = known.rows
        names = list(results_of(everything))
        try:
            rows, note = matching(everything, where or ""), None
            shown = chosen_fields(everything, fields)
        except InsightError as error:
            rows, note, shown = (), notice(prose(str(error))), []
        result_fields = [f"{RESULT}{result}"] if result in names else []
        numeric = [name for name in (*shown, *result_fields) if is_numeric(rows, name)]
        columns = lineage_columns([*shown, *result_fields], numeric, order or "")
        return (
            lineage_rows(rows, [*shown, *result_fields]),
            columns,
            _counted(len(rows), known, len(reader.runs())),
            note,
            with_chosen(names, result or ""),
            _offered(known_fields(everything), fields or []),
        )


def _offered(known: Sequence[str], chosen: Sequence[str]) -> list[dict[str, str]]:
    """The fields that can be chosen, by names so short that an address holds several, and what was chosen unknown."""
    short = {short_name(name, known): name for name in known if not name.startswith((RESULT, "package."))}
    unknown = {name: name for name in chosen if name not in short}
    return [{"value": value, "label": label} for value, label in {**short, **unknown}.items()]


def _counted(shown: int, known: Known, there: int) -> str:
    words = f"{shown:,} of {count(len(known.rows), 'run')}"
    words += f", the newest of {there:,}" if there > MOST else ""
    return words + (f"; {known.left:,} more are being read" if known.left else "")
