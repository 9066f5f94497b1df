"""The words of the profile: its four cards, the advice, and the tables of ranks and collectives."""

from collections.abc import Sequence
from math import isfinite

from dash import dcc, html
from dash.development.base_component import Component
from rich.filesize import decimal

from ....insight.profile import Advice, Collective, MemoryUse, Profile, RankTime, StepSplit
from ....storage import Run
from ...address import PageAddress
from ...components.page_parts import card, coded, empty_state
from ...components.tables import listing
from ...formatting import number, prose, sentence

#: From this share of a step on the monitor's own cost is worth a look: the project's target for every step.
_MONITOR = 0.05
_LISTED = 24


def duration(seconds: float) -> str:
    """Format seconds in the unit that keeps the number short; a dash where they are unknown."""
    if not isfinite(seconds):
        return "–"
    if seconds == 0.0:
        return "0 s"
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{number(seconds / size, 3)} {unit}"
    return f"{number(seconds * 1e6, 3)} µs"


def size(amount: float) -> str:
    """Format bytes in the unit that keeps the number short; a dash where they are unknown."""
    return decimal(int(amount)) if isfinite(amount) else "–"


def profile_cards(run: Run, split: StepSplit, use: MemoryUse | None) -> list[html.Div]:
    """Build four cards: the time of a step, its largest part, the monitor's share, and the peak memory."""
    return [_step(run, split), _most(split), _monitor(split), _peak(run, use)]


def _step(run: Run, split: StepSplit) -> html.Div:
    if not split.steps:
        return card("A step takes", duration(split.step_s), "single steps were not timed")
    links: list[Component | str] = [f"95 % at most {duration(split.slow_s)}; longest: steps "]
    for at, step in enumerate(split.slowest[:3]):
        links += [", "] if at else []
        links.append(dcc.Link(f"{step:,}", href=PageAddress("run", run.id, step=step).href))
    return card("A step takes", duration(split.step_s), html.Span(links))


def _most(split: StepSplit) -> html.Div:
    if not split.phases:
        return card("Most of it", "–", "the split of the step was not recorded")
    name = max(split.phases, key=lambda phase: split.phases[phase])
    return card("Most of it", sentence(name), f"{duration(split.phases[name])}, {split.share(name):.0%} of the step")


def _monitor(split: StepSplit) -> html.Div:
    share = split.monitor_share
    if not isfinite(share):
        return card("The monitor takes", "–", "its own cost was not recorded")
    tone = "watch" if share > _MONITOR else "good"
    beside = split.beside.get("writer", 0.0)
    note = f"{duration(split.inside['monitor'])} in a step, {duration(beside)} beside it; its hooks are in the phases"
    return card("The monitor takes", f"{share:.1%}", note, tone)


def _peak(run: Run, use: MemoryUse | None) -> html.Div:
    if use is None or use.peak_step < 0:
        return card("Most memory", "–", "memory was not recorded")
    where = dcc.Link(f"step {use.peak_step:,}", href=PageAddress("run", run.id, step=use.peak_step).href)
    is_device = isfinite(use.device_peak_bytes)
    amount, memory = (use.device_peak_bytes, "device") if is_device else (use.host_peak_bytes, "host")
    return card("Most memory", size(amount), html.Span([f"of the {memory}, at ", where]))


def advice_list(advice: Sequence[Advice], missing: Sequence[str]) -> list[Component]:
    """List what would make the training faster, the largest gain first, and what the run has not recorded."""
    if advice:
        shown: list[Component] = [html.Ol([_piece(piece) for piece in advice], className="advice-list")]
    else:
        shown = [empty_state("Nothing to do", "No part of the step takes more than it should.", icon="good")]
    if missing:
        shown.append(html.P(coded(f"Not recorded: {'; '.join(missing)}."), className="muted"))
    return shown


def _piece(advice: Advice) -> html.Li:
    gain = f"At most {1 / max(1 - advice.share, 0.01):.2f} times as fast."
    return html.Li(
        [html.Strong(prose(advice.says)), " ", prose(advice.do), " ", html.Span(gain, className="muted")],
    )


def ranks_table(run: Run, ranks: Sequence[RankTime]) -> Component:
    """List the ranks, the slowest first."""
    rows = [
        (
            dcc.Link(f"{rank_time.rank}", href=PageAddress("ranks", run.id).having(rank=f"{rank_time.rank}").href),
            duration(rank_time.own_s),
            duration(rank_time.wait_s),
            f"{rank_time.slowness:.2f}" if isfinite(rank_time.slowness) else "–",
            f"{rank_time.steps:,}",
        )
        for rank_time in ranks[:_LISTED]
    ]
    columns = ("Rank", "Own work", "Waiting", "Relative to the others", "Steps")
    return listing("ranks", columns, rows, columns)


def collectives_table(profile: Profile) -> Component:
    """List what collectives cost in a mean step, the most expensive first."""
    costs: Sequence[Collective] = sorted(profile.collectives, key=lambda cost: -cost.seconds)[:_LISTED]
    rows = [
        (
            html.Span(cost.site, className="mono"),
            f"{cost.rank}",
            number(cost.calls, 3),
            size(cost.size_bytes),
            duration(cost.seconds),
            duration(cost.wait_s),
        )
        for cost in costs
    ]
    columns = ("Collective", "Rank", "Calls", "Bytes", "Time", "Waiting")
    return listing("collectives", columns, rows, columns[1:])
