"""Where the time of steps goes, which rank is looked at, and who is waited for."""

from typing import Final

import dash
from dash import html
from dash.development.base_component import Component

from ....insight.profile import Profile
from ....storage import Run
from ...components import empty_state, graph, notice, panel
from ...components.profiling import collectives_table, ranks_table
from ...data.timing import StepCourse
from ...figures.profile import split_figure
from ...figures.ranks import Pace, pace_figure, pace_height
from ...spans import Span, span_of
from ...theme import Palette
from .ids import HIDDEN

#: Ranks whose bars are drawn, the slowest first.
_PACES: Final = 24


def rank_of(run: Run, said: str | None) -> int:
    """The rank that is looked at: the one that was chosen, the lowest where none or an unknown one was."""
    chosen = int(said) if said and said.isdigit() else -1
    return chosen if chosen in run.ranks else min(run.ranks, default=0)


def unfollowed(text: str | None, rank: str | None, run: Run) -> Component | None:
    """Words about a choice that cannot be followed."""
    if text and span_of(text) is None:
        return notice(f"{text[:40]!r} is no stretch of steps; write one as 120-480. All steps are shown.")
    if rank and rank_of(run, rank) != int(rank):
        return notice(f"This run has no rank {rank}; rank {rank_of(run, rank)} is shown.")
    return None


def split_of(course: StepCourse, palette: Palette, span: Span | None) -> tuple[object, object, object]:
    """Figure, style and note of the time of steps by phase."""
    if not len(course.steps):
        advice = "Turn on the subjects `step_seconds` and `time` in the monitor's configuration, or choose other steps."
        return dash.no_update, HIDDEN, empty_state("No step was timed here", advice)
    columns = (course.steps.tolist(), course.ends.tolist(), course.parts, course.inside, course.longest)
    figure = split_figure(*columns, palette)
    figure.update_layout(xaxis={"range": list(span) if span else None})
    note = None
    if set(course.parts) == {"step"}:
        note = html.P("The split of steps was not recorded: the subject `time` is off.", className="muted")
    return figure, {"height": "340px"}, note


def ranks_of(run: Run, found: Profile, palette: Palette) -> list[Component]:
    """Who is waited for, and what collectives cost; nothing for one rank alone."""
    shown: list[Component] = []
    if found.ranks:
        paces = sorted(
            (Pace(one.rank, one.step_s, one.wait_s) for one in found.ranks[:_PACES]), key=lambda one: one.rank
        )
        bars = graph(
            "profile-pace", "work and waiting of every rank", pace_height(len(paces)), pace_figure(paces, palette)
        )
        shown.append(panel("Stragglers", [bars, ranks_table(run, found.ranks)]))
    if found.collectives:
        shown.append(panel("Collectives", collectives_table(found)))
    return shown
