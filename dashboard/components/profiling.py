"""The words of the profile: its four cards, the advice, and the tables of ranks and collectives."""

from collections.abc import Sequence
from math import isfinite

from dash import dcc, html
from dash.development.base_component import Component
from rich.filesize import decimal

from ...insight.profile import Advice, Collective, MemoryUse, Profile, RankTime, StepSplit
from ...storage import Run
from ..address import Address
from ..words import number, prose, sentence
from .cards import card
from .coded import coded
from .empty_state import empty_state
from .listing import listing

#: From this share of a step on the monitor's own cost is worth a look: the project's target for every step.
_MONITOR = 0.05
_LISTED = 24


def duration(seconds: float) -> str:
    """Seconds in the unit that keeps the number short; a dash where they are not known."""
    if not isfinite(seconds):
        return "–"
    if seconds == 0.0:
        return "0 s"
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{number(seconds / size, 3)} {unit}"
    return f"{number(seconds * 1e6, 3)} µs"


def size(amount: float) -> str:
    """Bytes in the unit that keeps the number short; a dash where they are not known."""
    return decimal(int(amount)) if isfinite(amount) else "–"


def profile_cards(run: Run, split: StepSplit, use: MemoryUse | None) -> list[html.Div]:
    """How long a step takes, what most of it is, what the monitor takes of it, and the most memory."""
    return [_step(run, split), _most(split), _monitor(split), _peak(run, use)]


def _step(run: Run, split: StepSplit) -> html.Div:
    if not split.steps:
        return card("A step takes", duration(split.step_s), "steps were not timed one by one")
    links: list[Component | str] = [f"95 % at most {duration(split.slow_s)}; longest: steps "]
    for at, step in enumerate(split.slowest[:3]):
        links += [", "] if at else []
        links.append(dcc.Link(f"{step:,}", href=Address("run", run.id, step=step).href))
    return card("A step takes", duration(split.step_s), html.Span(links))


def _most(split: StepSplit) -> html.Div:
    if not split.phases:
        return card("Most of it", "–", "the split of the step was not recorded")
    name = max(split.phases, key=lambda one: split.phases[one])
    return card("Most of it", sentence(name), f"{duration(split.phases[name])}, {split.share(name):.0%} of the step")


def _monitor(split: StepSplit) -> html.Div:
    share = split.share("monitor")
    if not isfinite(share):
        return card("The monitor takes", "–", "its own cost was not recorded")
    tone = "watch" if share > _MONITOR else "good"
    return card("The monitor takes", f"{share:.1%}", f"{duration(split.inside['monitor'])} of a step", tone)


def _peak(run: Run, use: MemoryUse | None) -> html.Div:
    if use is None or use.peak_step < 0:
        return card("Most memory", "–", "memory was not recorded")
    where = dcc.Link(f"step {use.peak_step:,}", href=Address("run", run.id, step=use.peak_step).href)
    is_device = isfinite(use.device_peak_bytes)
    amount, place = (use.device_peak_bytes, "device") if is_device else (use.host_peak_bytes, "host")
    return card("Most memory", size(amount), html.Span([f"of the {place}, at ", where]))


def advice_list(advice: Sequence[Advice], missing: Sequence[str]) -> list[Component]:
    """What would make the training faster, the largest gain first; and what the run has not recorded."""
    if advice:
        shown: list[Component] = [html.Ol([_piece(one) for one in advice], className="advice-list")]
    else:
        shown = [empty_state("Nothing to do", "No part of the step takes more than it should.", icon="good")]
    if missing:
        shown.append(html.P(coded(f"Not recorded: {'; '.join(missing)}."), className="muted"))
    return shown


def _piece(one: Advice) -> html.Li:
    gain = f"At most {1 / max(1 - one.share, 0.01):.2f} times as fast."
    return html.Li(
        [html.Strong(prose(one.says)), " ", prose(one.do), " ", html.Span(gain, className="muted")],
    )


def ranks_table(run: Run, ranks: Sequence[RankTime]) -> Component:
    """The ranks, the slowest first."""
    rows = [
        (
            dcc.Link(f"{one.rank}", href=Address("ranks", run.id).having(rank=f"{one.rank}").href),
            duration(one.own_s),
            duration(one.wait_s),
            f"{one.slowness:.2f}" if isfinite(one.slowness) else "–",
            f"{one.steps:,}",
        )
        for one in ranks[:_LISTED]
    ]
    columns = ("Rank", "Own work", "Waiting", "Against the others", "Steps")
    return listing("ranks", columns, rows, columns)


def collectives_table(profile: Profile) -> Component:
    """What collectives cost in a mean step, the most expensive first."""
    costs: Sequence[Collective] = sorted(profile.collectives, key=lambda one: -one.seconds)[:_LISTED]
    rows = [
        (
            html.Span(one.site, className="mono"),
            f"{one.rank}",
            number(one.calls, 3),
            size(one.size_bytes),
            duration(one.seconds),
            duration(one.wait_s),
        )
        for one in costs
    ]
    columns = ("Collective", "Rank", "Calls", "Bytes", "Time", "Waiting")
    return listing("collectives", columns, rows, columns[1:])
