"""The results of attacks: cards, the verdict on gradient masking, tables, a radar and examples."""

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component
from numpy.typing import NDArray

from ....storage import Outcome
from ....storage.evaluation_verdict import Symptom, doubts_of
from ...components.page_parts import card
from ...components.tables import rows_table
from ...figures.drawing import Part, drawing
from ...formatting import count, number, prose
from ...queries.evaluations import WORST_CASE, Evaluations, Example, number_in, part_in
from ...theme import Palette

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOR = 0, 2


def bitmap(pixels: NDArray[np.float64]) -> str:
    """Encode the pixels as the `data:` address of a lossless PNG; PNG 1.2, W3C 2003.

    Args:
        pixels: `(height, width, channels)` within 0 and 1, one channel or three; what lies beyond is cut.
    """
    levels = np.round(np.clip(np.nan_to_num(pixels), 0, 1) * 255).astype(np.uint8)
    height, width, channels = levels.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each line begins with its filter, 0 for none
    lines[:, 1:] = levels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, _GREY if channels == 1 else _COLOR, 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(lines.tobytes())), _chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(_SIGNATURE + b"".join(chunks)).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def magnified(change: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the change around middle grey, as strong as can be shown, and its magnification."""
    largest = float(np.abs(change).max(initial=0.0))
    times = 0.5 / largest if largest > 0 else 1.0
    return 0.5 + change * times, times


_PIXELS: Final = 112


def gallery(examples: Sequence[Example]) -> html.Div:
    """Build one row of three images for each example, with the classes and the model's confidence."""
    return html.Div([_example(example) for example in examples], className="gallery")


def _example(example: Example) -> html.Figure:
    change, times = magnified(example.change)
    largest = 0.5 / times
    images = (
        (example.clean, "as it is", _class_words(example.clean_class, example.clean_confidence)),
        (change, f"the change × {number(times, 3)}", f"at most {number(largest, 3)} of the range"),
        (example.adversarial, "attacked", _class_words(example.adversarial_class, example.adversarial_confidence)),
    )
    title = f"Sample {example.sample}, labelled {example.label}, moved by {number(example.distance)}"
    row = [
        html.Div(
            [
                html.Img(
                    src=bitmap(pixels), width=_PIXELS, height=_PIXELS, alt=f"sample {example.sample} {what}: {words}"
                ),
                html.Div(what, className="muted"),
                html.Div(words),
            ],
            className="shown",
        )
        for pixels, what, words in images
    ]
    return html.Figure([html.Figcaption(title, className="part-title"), html.Div(row, className="shown-row")])


def _class_words(found: int, confidence: float) -> str:
    return f"class {found}" if confidence != confidence else f"class {found}, {confidence:.1%} sure"


#: What DEEPSEC measures of an attack (Ling et al. 2019, table III), in the order of the spokes.
METRICS: Final = {
    "MR": "misclassified",
    "ACAC": "confidence in the wrong class",
    "ACTC": "confidence left in the true class",
    "ALDp": "distance moved",
    "ASS": "structural similarity",
    "NTE": "noise it tolerates",
}
#: Characters of a line beside a spoke.
_LINE: Final = 18
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True)
class RadarSeries:
    """One attack: its value on every spoke, NaN where it was not measured."""

    name: str
    values: Mapping[str, float]


def radar_figure(attacks: Sequence[RadarSeries], palette: Palette) -> go.Figure:
    """Draw one closed line for every attack; a metric that was not measured breaks it."""
    names = [name for name in METRICS if any(math.isfinite(attack.values.get(name, math.nan)) for attack in attacks)]
    largest = {name: _largest(attacks, name) for name in names}
    around = {"gridcolor": palette.grid, "linecolor": palette.grid}
    return drawing(
        [_closed(attack, names, largest, palette, at) for at, attack in enumerate(attacks)],
        palette,
        showlegend=True,
        margin={"t": 84, "l": 110, "r": 110, "b": 44},
        legend={"orientation": "h", "x": 0, "y": 1.16, "yanchor": "bottom"},
        polar={
            "bgcolor": "rgba(0,0,0,0)",
            "radialaxis": {"range": [0, 1.05], "showticklabels": False, "ticks": "", **around},
            "angularaxis": {
                "direction": "clockwise",
                "tickfont": {"size": 11, "color": palette.muted},
                "tickmode": "array",
                "tickvals": names,
                "ticktext": ["<br>".join([f"<b>{name}</b>", *wrap(METRICS[name], _LINE)]) for name in names],
                **around,
            },
        },
    )


def _largest(attacks: Sequence[RadarSeries], name: str) -> float:
    values = [attack.values.get(name, math.nan) for attack in attacks]
    return max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0


def _closed(attack: RadarSeries, names: Sequence[str], largest: Mapping[str, float], palette: Palette, at: int) -> Part:
    circle = [*names, *names[:1]]
    values = [attack.values.get(name, math.nan) for name in circle]
    pairs = list(zip(circle, values, strict=True))
    shares = [value / largest[name] if math.isfinite(value) else None for name, value in pairs]
    dash = _DASHES[at // len(palette.lines) % len(_DASHES)]
    return {
        "type": "scatterpolar",
        "r": shares,
        "theta": circle,
        "customdata": [[number(value), METRICS[name]] for name, value in pairs],
        "mode": "lines+markers",
        "name": attack.name,
        "line": {"width": 2, "color": palette.lines[at % len(palette.lines)], "dash": dash},
        "hovertemplate": "<b>%{fullData.name}</b><br>%{theta}, %{customdata[1]}: %{customdata[0]}<extra></extra>",
    }


def robust_cards(found: Evaluations, norm: str, epsilon: float) -> list[html.Div]:
    """Build cards: clean accuracy, accuracy under attack, certified accuracy, and the verdict on gradient masking."""
    clean, worst = at_budget(found, norm, 0.0), at_budget(found, norm, epsilon)
    certain = certified(found, norm, epsilon)
    clean_card = card("Clean", "–", "no evaluation without an attack")
    if clean is not None:
        clean_card = card("Clean", f"{clean.accuracy:.1%}", f"of {count(clean.samples, 'sample')}")
    left_card = card(f"Under attack at ε {number(epsilon)}", "–", "no attack ran at this budget")
    if worst is not None:
        tone = "bad" if clean is not None and worst.accuracy < clean.accuracy / 2 else ""
        left_card = card(f"Under attack at ε {number(epsilon)}", f"{worst.accuracy:.1%}", _attack_words(worst), tone)
    certified_outcome = card(f"Certified at ε {number(epsilon)}", "–", "no certificate reaches this budget")
    if certain is not None:
        certified_outcome = card(f"Certified at ε {number(epsilon)}", f"{certain.accuracy:.1%}", certain.attack)
    return [clean_card, left_card, certified_outcome, _verdict_card(found, norm)]


def at_budget(found: Evaluations, norm: str, epsilon: float) -> Outcome | None:
    """Return the worst case at a budget; where none was computed, the attack that left the least accuracy."""
    worst = [outcome for outcome in found.of(WORST_CASE, norm) if outcome.epsilon == epsilon]
    alone = [outcome for outcome in found.of("attack", norm) if outcome.epsilon == epsilon]
    return min(worst or alone, key=lambda outcome: outcome.accuracy, default=None)


def certified(found: Evaluations, norm: str, epsilon: float) -> Outcome | None:
    """Return the strongest certificate at a budget: one of a larger budget holds at a smaller one as well."""
    holding = [outcome for outcome in found.of("certificate", norm) if outcome.epsilon >= epsilon]
    return max(holding, key=lambda outcome: outcome.accuracy, default=None)


def _attack_words(worst: Outcome) -> str:
    names = worst.details.get("attacks")
    if isinstance(names, list | tuple) and names:
        return f"worst of {count(len(names), 'attack')} for each sample"
    return f"by {worst.attack}, worst of those that ran"


def _judged_outcome(found: Evaluations, norm: str) -> Outcome | None:
    """Return the outcome with the verdict on gradient masking, of the largest budget that has one."""
    return next((outcome for outcome in reversed(found.of(WORST_CASE, norm)) if "masking" in outcome.details), None)


def _verdict_card(found: Evaluations, norm: str) -> html.Div:
    judged = _judged_outcome(found, norm)
    if judged is None:
        return card("Verdict", "Not judged", "run the whole suite to check for gradient masking", "quiet")
    reasons = doubts_of(judged)
    if reasons:
        return card("Verdict", "Do not trust it", f"{count(len(reasons), 'sign')} of gradient masking", "bad")
    return card("Verdict", "Credible", "no sign of gradient masking", "good")


def verdict(found: Evaluations, norm: str, epsilon: float) -> list[Component]:
    """Say sentence by sentence whether the robust accuracy can be trusted."""
    judged = _judged_outcome(found, norm)
    if judged is None:
        words = "Gradient masking was not checked; the whole suite checks it at its end."
        return [html.P(words, className="finding-text"), *_comparisons(found, norm, epsilon)]
    reasons = doubts_of(judged)
    if not reasons:
        words = "No sign of gradient masking: attacks that use gradients are at least as strong as those that do not."
        return [html.P(words, className="finding-text"), *_comparisons(found, norm, epsilon)]
    return [*(_reason(reason) for reason in reasons), *_comparisons(found, norm, epsilon)]


def _reason(doubt: Symptom) -> html.Div:
    head = [html.Span(doubt.name, className="finding-title")]
    head += [] if math.isnan(doubt.value) else [html.Span(number(doubt.value), className="finding-since mono")]
    words = html.P(prose(doubt.explanation), className="finding-text")
    return html.Div([html.Div(head, className="finding-head"), words], className="finding")


def _comparisons(found: Evaluations, norm: str, epsilon: float) -> list[Component]:
    """Say how much better plain PGD alone would look, and whether a certificate contradicts the attacks."""
    worst, bound = at_budget(found, norm, epsilon), certified(found, norm, epsilon)
    texts = []
    if worst is not None and (gap := number_in(worst.details, "gap")) > 0:
        texts.append(
            f"PGD of 40 steps alone would leave {worst.accuracy + gap:.1%} at epsilon {number(epsilon)}, "
            f"{gap * 100:.1f} points more than the worst case."
        )
    if worst is not None and bound is not None and bound.accuracy > worst.accuracy:
        texts.append(
            f"{bound.attack} certifies {bound.accuracy:.1%} where the attacks leave {worst.accuracy:.1%}: "
            f"they were measured on other samples or another model."
        )
    return [html.P(words, className="finding-text") for words in texts]


def attacks_table(found: Evaluations, norm: str, epsilon: float, chosen: str) -> Component:
    """List every attack at one budget, the strongest first."""
    here = [
        outcome for outcome in (*found.of(WORST_CASE, norm), *found.of("attack", norm)) if outcome.epsilon == epsilon
    ]
    ordered = sorted(here, key=lambda outcome: (outcome.accuracy, outcome.attack != WORST_CASE, outcome.attack))
    head = ("Attack", "Accuracy", "Median distance", "Queries", "Gradient calls", "Samples")
    return rows_table(
        head, [_row(outcome, outcome.attack == chosen) for outcome in ordered], f"attacks at epsilon {epsilon:g}"
    )


def _row(outcome: Outcome, is_chosen: bool) -> Sequence[str | Component]:
    distance = number(outcome.median_distance) if math.isfinite(outcome.median_distance) else "none found"
    spent = [_spent(number_in(outcome.details, name)) for name in ("queries", "gradient_calls")]
    name = html.Strong(outcome.attack) if is_chosen else outcome.attack
    return (name, f"{outcome.accuracy:.1%}", distance, *spent, f"{outcome.samples:,}")


def _spent(amount: float) -> str:
    return "–" if math.isnan(amount) else f"{amount:,.0f}"


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Return what was measured of an attack besides its success, by the names of the radar."""
    metrics = part_in(outcome.details, "metrics")
    return {name: number_in(metrics, name) for name in metrics}


def sources_table(found: Evaluations) -> Component:
    """List the runs that hold the outcomes, with the seeds that repeat them."""
    runs = {run.id: run for run, _ in found.pairs}
    rows = []
    for run in runs.values():
        mine = [outcome for source, outcome in found.pairs if source.id == run.id]
        seeds = sorted({number(seed) for outcome in mine if not math.isnan(seed := number_in(outcome.details, "seed"))})
        samples = max(outcome.samples for outcome in mine)
        rows.append((run.name or run.id, run.state_words, f"{len(mine):,}", f"{samples:,}", ", ".join(seeds) or "–"))
    return rows_table(("Evaluation", "State", "Outcomes", "Samples, at most", "Seeds"), rows, "evaluations", words=2)
