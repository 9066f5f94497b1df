"""Images and sounds that the training has logged, all at the step of one slider."""

import time
from collections.abc import Sequence
from typing import Final

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component

from ...address import PageAddress, QueryKey
from ...components.page_parts import empty_state
from ...components.run_header import run_header, run_picker, run_status
from ...formatting import count
from ...media_files import media_link
from ...page_callbacks import STEP, connect_polling, control_keys, follow_run, keep_address, polling_parts
from ...page_registry import page
from ...queries.media_queries import MediaFile, MediaSeries, media_of
from ...queries.reader import Reader


class MediaIds:
    """Ids of the components of this page."""

    keys: Final = "media-keys"
    tick: Final = "media-tick"
    version: Final = "media-version"
    run: Final = "media-run"
    match: Final = "media-match"
    slider: Final = "media-slider"
    place: Final = "media-place"
    step: Final = "media-step"
    bar: Final = "media-bar"
    wall: Final = "media-wall"


MATCHING: Final = QueryKey("match")
_CONTROLS: Final = ((MediaIds.match, "value", MATCHING), (MediaIds.step, "data", STEP))
#: Sides up to which pixels are drawn larger than they are, each as a square.
_SMALL: Final = 128


def connect(app: dash.Dash, reader: Reader) -> None:
    """Show what the slider stands at; at its end it follows the newest step."""

    @app.callback(
        Output(MediaIds.wall, "children"),
        Output(MediaIds.place, "children"),
        Output(MediaIds.slider, "max"),
        Output(MediaIds.slider, "value"),
        Output(MediaIds.step, "data"),
        Output(MediaIds.bar, "hidden"),
        Input(MediaIds.slider, "value"),
        Input(MediaIds.match, "value"),
        Input(MediaIds.version, "data"),
        State(MediaIds.slider, "max"),
        State(MediaIds.step, "data"),
        State(MediaIds.run, "value"),
        prevent_initial_call=True,
    )
    def show(
        value: int, match: str | None, _: object, end: int, chosen: int | None, reference: str
    ) -> tuple[object, ...]:
        run = reader.find(reference)
        found = media_of(reader, run)
        steps = steps_of(found)
        if dash.ctx.triggered_id == MediaIds.slider:
            chosen = None if value >= end or value >= len(steps) else steps[value]
        at = place_of(steps, chosen)
        return (
            wall(run.id, found, steps[at] if steps else 0, match or ""),
            place_words(steps, at, chosen),
            max(len(steps) - 1, 1),
            at,
            chosen,
            len(steps) < 2,
        )

    connect_polling(app, reader, tick=MediaIds.tick, version=MediaIds.version, run=MediaIds.run)
    keep_address(app, MediaIds.keys, _CONTROLS)
    follow_run(app, MediaIds.run)


def steps_of(found: Sequence[MediaSeries]) -> list[int]:
    """Return all steps at which something was logged, ascending."""
    return sorted({step for series in found for step, _ in series.steps})


def place_of(steps: Sequence[int], chosen: int | None) -> int:
    """Return the place of the newest step up to the chosen one; the last without a choice."""
    if chosen is None:
        return max(len(steps) - 1, 0)
    return max(sum(step <= chosen for step in steps) - 1, 0)


def place_words(steps: Sequence[int], at: int, chosen: int | None) -> str:
    """Return where the slider stands, in words."""
    if not steps:
        return ""
    return f"step {steps[at]:,} · {'newest' if chosen is None else f'{at + 1:,}'} of {count(len(steps), 'step')}"


def wall(run: str, found: Sequence[MediaSeries], step: int, match: str) -> list[Component]:
    """Build a card for each name that contains the text, with the files of its newest step up to this one."""
    if not found:
        advice = "Log them with `monitor.log_image('samples', images)` or `monitor.log_audio('speech', samples, rate)`."
        return [empty_state("No images or sounds yet", advice, "`mindscope import` takes those of TensorBoard.")]
    shown = [series for series in found if match.lower() in series.name.lower()]
    if not shown:
        return [empty_state("No name matches", f"None of {count(len(found), 'name')} contains `{match}`.")]
    has_ranks = len({series.rank for series in found}) > 1
    return [_card(run, series, step, with_rank=has_ranks) for series in shown]


def _card(run: str, series: MediaSeries, step: int, *, with_rank: bool) -> Component:
    entry = series.at(step)
    words = "not logged yet" if entry is None else f"step {entry[0]:,}"
    head = [
        html.H2(series.name, className="wall-title", title=series.name),
        html.Span(f"{words} · rank {series.rank}" if with_rank else words, className="muted media-step"),
    ]
    files = [] if entry is None else entry[1]
    drawn = [_file(run, series.name, file, at, len(files)) for at, file in enumerate(files)]
    return html.Section(
        [html.Div(head, className="media-head"), html.Div(drawn, className="media-files")], className="panel media-card"
    )


def _file(run: str, name: str, file: MediaFile, at: int, of: int) -> Component:
    words = " · ".join(text for text in (file.caption, file.note) if text)
    label = f"{name}{f', {at + 1} of {of}' if of > 1 else ''}{f': {words}' if words else ''}"
    caption = [html.Figcaption(words, className="media-caption", title=words)] if words else []
    return html.Figure([_content(media_link(run, file), file, label), *caption], className="media-figure")


def _content(link: str, file: MediaFile, label: str) -> Component:
    if file.media_type.startswith("audio/"):
        return html.Audio(src=link, controls=True, preload="none", className="media-sound", **{"aria-label": label})
    is_small = 0 < max(file.width, file.height) <= _SMALL
    size = {"width": file.width, "height": file.height} if file.width and file.height else {}
    image = html.Img(src=link, alt=label, className="media-image media-small" if is_small else "media-image", **size)
    return html.A(image, href=link, target="_blank", title=f"{label} (opens the file)")


def _controls(address: PageAddress, steps: Sequence[int], at: int, chosen: int | None) -> list[Component]:
    match = dmc.TextInput(
        id=MediaIds.match,
        value=MATCHING.of(address),
        placeholder="filter names",
        size="xs",
        w=140,
        debounce=250,
        **{"aria-label": "Filter names"},
    )
    slider = dmc.Slider(
        id=MediaIds.slider,
        value=at,
        min=0,
        max=max(len(steps) - 1, 1),
        step=1,
        label=None,
        size="sm",
        updatemode="mouseup",
        thumbLabel="Step",
        persistence=False,
    )
    bar = [
        html.Div(slider, className="media-slider"),
        html.Span(place_words(steps, at, chosen), id=MediaIds.place, className="muted media-place"),
    ]
    return [match, html.Div(bar, id=MediaIds.bar, hidden=len(steps) < 2, className="media-bar")]


@page("media", title="Media", icon="media", connect=connect, keys=(MATCHING,))
def layout(reader: Reader, address: PageAddress) -> Component:
    """Lay out the images and sounds of a run."""
    run = reader.find(address.run)
    found = media_of(reader, run)
    steps = steps_of(found)
    at = place_of(steps, address.step)
    match = MATCHING.of(address)
    return html.Div(
        [
            run_header(
                run,
                html.Div(run_status(run, time.time()), className="status"),
                run_picker(MediaIds.run, reader.runs(), run),
            ),
            html.Div(_controls(address, steps, at, address.step), className="bar media-controls"),
            html.Div(wall(run.id, found, steps[at] if steps else 0, match), id=MediaIds.wall, className="media-wall"),
            control_keys(MediaIds.keys, _CONTROLS),
            dcc.Store(id=MediaIds.step, data=address.step),
            *polling_parts(MediaIds.tick, MediaIds.version, reader.version(run.id)),
        ]
    )
