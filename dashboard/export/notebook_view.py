"""The dashboard's figures in a notebook: the same functions over the same store, shown by Plotly itself."""

from html import escape
from pathlib import Path
from types import TracebackType
from typing import Self

import plotly.graph_objects as go

from ...storage import Run, Store, display_site, nearest, open_store
from ..figures.series_figure import Line, overlay_figure
from ..formatting import sentence
from ..headline import default_maps, headline_of
from ..pages.graph.graph_page import model_figure
from ..queries.reader import Reader
from ..queries.x_axes import along
from ..run_figures import run_curve_figure, run_heatmap_figure
from ..theme import palette_of
from .html_report import export_report


def view_run(run: str = "latest", store: str = "runs/", *, scheme: str = "light") -> "RunView":
    """Open a run in a notebook.

    Args:
        run: An id, a unique prefix, a name or `latest`.
        store: What `open_store` takes.
        scheme: `light` or `dark`.

    Raises:
        RunNotFound: No run matches, or several do.
        StoreUnavailable: There is no such store.
    """
    opened = open_store(store)
    try:
        return RunView(opened, opened.find_run(run), scheme=scheme)
    except BaseException:
        opened.close()
        raise


class RunView:
    """A run in a notebook: its verdict as the cell's output, its figures as Plotly figures.

    Args:
        store: Closed with the view.
    """

    def __init__(self, store: Store, run: Run, *, scheme: str = "light") -> None:
        self.run = run
        self._store = store
        self._reader = Reader(store)
        self._palette = palette_of(scheme)

    def curve(self, scalar: str = "loss", *, scale: str = "linear") -> go.Figure:
        """Draw a scalar over the steps with the findings on it."""
        self._check("scalar", scalar, self._reader.scalars(self.run.id))
        return self._on_paper(run_curve_figure(self._reader, self.run.id, scalar, scale, self._palette))

    def heat(self, *metrics: str, view: str = "deviation") -> go.Figure:
        """Draw layer x step of up to three metrics; the default ones if none is named."""
        known = self._reader.metrics(self.run.id)
        for metric in metrics:
            self._check("metric", metric, known)
        chosen = list(metrics) or default_maps(known)
        return self._on_paper(run_heatmap_figure(self._reader, self.run.id, chosen, view, self._palette))

    def tensor(self, site: str, metric: str, *, axis: str = "step", log: bool = False) -> go.Figure:
        """Draw one metric at one site over steps, time, tokens or epochs."""
        self._check("metric", metric, self._reader.metrics(self.run.id))
        self._check("site", site, self._reader.sites(self.run.id, metric))
        series = self._reader.series(self.run.id, site, metric)
        x = along(self._reader, self.run, series, axis)
        line = Line(display_site(site), series.steps, x, series.values)
        return self._on_paper(overlay_figure([line], self._palette, title=metric, axis=axis, log=log))

    def model(
        self, *, shape: str = "flow", color: str = "findings", metric: str = "", step: int | None = None
    ) -> go.Figure:
        """Draw the modules, as data flow or as tree, coloured by findings, deviation or value."""
        at = self.run.last_step if step is None else step
        drawn = model_figure(
            self._reader, self.run, self._palette, shape=shape, color=color, metric=metric, site=None, step=at
        )
        return self._on_paper(drawn)

    def save(self, folder: str | Path) -> Path:
        """Write the whole report of the run into a folder; return the file."""
        return export_report(self._store, self.run, Path(folder), scheme=self._palette.scheme)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """Show the verdict in one line when a notebook displays the view itself."""
        found = headline_of(self._reader, self.run)
        words = f"<b>{escape(self.run.name or self.run.id)}</b>: {found.verdict}"
        if found.first is not None:
            site = escape(display_site(found.first.site))
            words += (
                f", {escape(sentence(found.first.cause))} at <code>{site}</code> since step {found.first.first_step:,}"
            )
        return f"<p>{words}.</p>"

    def _on_paper(self, figure: go.Figure) -> go.Figure:
        """Give the figure the scheme's own background: a notebook's may be of the other scheme."""
        return figure.update_layout(paper_bgcolor=self._palette.surface, plot_bgcolor=self._palette.surface)

    def _check(self, kind: str, name: str, known: tuple[str, ...]) -> None:
        if name not in known:
            raise ValueError(f"run {self.run.name!r} has no {kind} {name!r}{nearest(name, known) or ''}")
