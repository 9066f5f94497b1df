"""The ranks of a run beside each other: how much of a step each worked and waited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from ..theme import Palette, template


@dataclass(frozen=True, slots=True)
class Pace:
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


def paces_of(step_seconds: Mapping[int, float], waits: Mapping[int, float]) -> tuple[Pace, ...]:
    """The pace of every rank whose step was timed."""
    return tuple(Pace(rank, step, waits.get(rank, 0.0)) for rank, step in sorted(step_seconds.items()))


def slowest(paces: Sequence[Pace]) -> Pace | None:
    """The rank that the others wait for: the one that works longest; None where there is nothing to compare."""
    return max(paces, key=lambda pace: pace.work_s) if len(paces) > 1 else None


def skew_s(paces: Sequence[Pace]) -> float:
    """Seconds between the rank that works longest and the one that works shortest."""
    works = [pace.work_s for pace in paces]
    return max(works) - min(works) if works else float("nan")


def pace_height(ranks: int) -> int:
    """Pixels that the bars of so many ranks need."""
    return int(np.clip(ranks * 26 + 90, 150, 640))


def pace_figure(paces: Sequence[Pace], palette: Palette) -> go.Figure:
    """A bar for every rank: work, then waiting; the slowest is the one that hardly waits."""
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
