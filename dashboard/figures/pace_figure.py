"""The ranks of a run side by side: how much of a step each works and waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from ..theme import Palette, template


@dataclass(frozen=True, slots=True)
class RankPace:
    """The typical step of one rank.

    Args:
        wait_s: Of these seconds those spent waiting for other ranks; 0 where it was not recorded.
    """

    rank: int
    step_s: float
    wait_s: float

    @property
    def work_s(self) -> float:
        """What is left for work."""
        return max(0.0, self.step_s - self.wait_s)


def paces_of(step_seconds: Mapping[int, float], waits: Mapping[int, float]) -> tuple[RankPace, ...]:
    """Return the pace of every rank whose step was timed."""
    return tuple(RankPace(rank, step, waits.get(rank, 0.0)) for rank, step in sorted(step_seconds.items()))


def slowest(paces: Sequence[RankPace]) -> RankPace | None:
    """Return the rank that works longest, for which the others wait; None for fewer than two ranks."""
    return max(paces, key=lambda pace: pace.work_s) if len(paces) > 1 else None


def skew_s(paces: Sequence[RankPace]) -> float:
    """Return the seconds between the longest and the shortest work of a rank."""
    works = [pace.work_s for pace in paces]
    return max(works) - min(works) if works else float("nan")


def pace_height(ranks: int) -> int:
    """Return the pixels that the bars of so many ranks need."""
    return int(np.clip(ranks * 26 + 90, 150, 640))


def pace_figure(paces: Sequence[RankPace], palette: Palette) -> go.Figure:
    """Draw a bar for every rank: work, then waiting; the slowest is the one that hardly waits."""
    names = [f"rank {pace.rank}" for pace in paces]
    figure = go.Figure(layout={"template": template(palette)})
    parts = (
        ("work", [pace.work_s for pace in paces], palette.lines[0], ""),
        ("waiting for others", [pace.wait_s for pace in paces], palette.lines[1], "/"),
    )
    for name, values, color, pattern in parts:
        figure.add_bar(
            y=names,
            x=values,
            name=name,
            orientation="h",
            marker={"color": color, "pattern": {"shape": pattern}},
            hovertemplate="<b>%{y}</b><br>%{x:.4g} s " + name + "<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        legend={"traceorder": "normal"},
        height=pace_height(len(names)),
        margin={"t": 36},
        xaxis={"title": "seconds of a step", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category", "automargin": True},
    )
    return figure
