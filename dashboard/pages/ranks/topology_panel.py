"""The panel with the picture of a job: what its cells and blocks show can be chosen, and it follows the run."""

from hashlib import blake2b
from typing import Final

import dash
from dash import Input, Output, State, dcc, html

from ...address import PageAddress, QueryKey
from ...components.form_controls import choose, labelled, switch, with_chosen
from ...components.page_parts import graph, panel
from ...components.shell import ShellIds
from ...queries.rank_cells import COLOURINGS, Colouring, JobRanks, job_ranks, usual_colouring
from ...queries.rank_grid import RankGrid, grid_axes, rank_grid
from ...queries.rank_view import RankView, rank_view
from ...queries.reader import Reader
from ...theme import palette_of
from .topology_figure import topology_figure

__all__ = ["BLOCKS_BY", "CELLS", "TOPOLOGY_CONTROLS", "connect_topology", "topology_panel"]

#: `auto`: what tells most.
_AUTO: Final = "auto"
CELLS = QueryKey("cells", _AUTO, (_AUTO, *COLOURINGS))
BLOCKS_BY = QueryKey("blocks", pattern=r"[^\0]{1,80}", example="host")
_CELLS, _BLOCKS, _GRAPH, _NOTE, _SEEN = (
    f"ranks-topology-{part}" for part in ("cells", "blocks", "graph", "note", "seen")
)
TOPOLOGY_CONTROLS: Final = ((_CELLS, "value", CELLS), (_BLOCKS, "value", BLOCKS_BY))
_WORDS: Final = {
    "state": "what each is doing",
    "work": "how long each works in a step, beside the median",
    "divergence": "whether its values differ from those of the others",
}


def topology_panel(view: RankView, here: PageAddress) -> html.Section:
    """Build the panel; its callback draws."""
    axes = grid_axes(view.topology)
    chosen = BLOCKS_BY.of(here)
    controls = [labelled("cells", switch(_CELLS, "Cells show", CELLS.words, CELLS.of(here)))]
    blocks = choose(_BLOCKS, "Blocks", with_chosen(axes, chosen), chosen or next(iter(axes), None), 110)
    shown = {} if len(axes) > 1 else {"display": "none"}  # its callback needs it all the same
    body = [
        graph(_GRAPH, "the ranks of the job as cells, in blocks of hosts or along an axis of the mesh"),
        html.Div(id=_NOTE, className="muted", role="status"),
        dcc.Store(id=_SEEN),
    ]
    return panel("Hosts and ranks", body, [*controls, html.Span(blocks, style=shown)])


def connect_topology(app: dash.Dash, reader: Reader, *, run: str, tick: str) -> None:
    """Draw the picture, and again where something has changed: while a training hangs, its version does not.

    Args:
        run: Id of the component that holds the run.
        tick: Id of the interval.
    """

    @app.callback(
        Output(_GRAPH, "figure"),
        Output(_GRAPH, "style"),
        Output(_NOTE, "children"),
        Output(_SEEN, "data"),
        Input(tick, "n_intervals"),
        Input(_CELLS, "value"),
        Input(_BLOCKS, "value"),
        State(_SEEN, "data"),
        State(ShellIds.scheme, "data"),
        State(run, "value"),
    )
    def draw(
        _: int | None, cells: str, blocks: str | None, seen: str | None, scheme: str | None, reference: str
    ) -> tuple[object, ...]:
        found = reader.find(reference)
        if dash.ctx.triggered_id == tick and seen is not None and found.state != "running":
            return (dash.no_update,) * 4
        job = job_ranks(reader, found, rank_view(reader, found))
        colouring = cells if cells in COLOURINGS else usual_colouring(job)
        grid = rank_grid(job.topology, job.ranks, blocks or "")
        figure = topology_figure(job, grid, colouring, palette_of(scheme))
        shown = blake2b(repr((figure.to_dict(), scheme)).encode(), digest_size=8).hexdigest()
        if shown == seen:
            return (dash.no_update,) * 4
        return figure, {"height": f"{figure.layout.height}px"}, _note(job, grid, colouring), shown


def _note(job: JobRanks, grid: RankGrid, colouring: Colouring) -> str:
    """Say what a cell is and what its colour means."""
    counts = len(grid.ranks), len(set(grid.cells.tolist()))
    if counts[0] == counts[1]:
        each = "Each cell is a rank"
    else:
        each = f"{counts[1]:,} cells of up to {-(-counts[0] // counts[1]):,} ranks each show the worst of theirs"
    where = "" if job.topology.axes else "; hosts and groups were not recorded"
    outlined = "; the culprit is outlined" if job.culprits else ""
    known = (
        ""
        if colouring != "work" or job.work is None or job.work.is_own.all()
        else (", known of those that work longest or least in their group; the others are drawn with its median")
    )
    return f"{each}: {_WORDS[colouring]}{known}{outlined}{where}."
