"""A report in one HTML file that opens offline; the chart library is embedded."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...storage import Outcome

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #d8dee4 }
.doubt { border-left: 4px solid #c0392b; padding: .4rem .8rem; background: #fdf0ee }
"""


def write_report(path: str, outcomes: "Sequence[Outcome]") -> None:
    """Write the report to the file as a whole."""
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    partial.write_text(report(outcomes), encoding="utf-8")
    partial.replace(target)


def report(outcomes: "Sequence[Outcome]") -> str:
    """Return the page: verdict, chart, and a table of every outcome."""
    parts = [*_verdict(outcomes), *_chart(outcomes), _table(outcomes)]
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mindscope armour</title>'
        f"<style>{_STYLE}</style></head><body><h1>mindscope armour</h1>\n{body}\n</body></html>\n"
    )


def _verdict(outcomes: "Sequence[Outcome]") -> list[str]:
    from ...storage.evaluation_verdict import evaluation_verdict

    found = evaluation_verdict(outcomes)
    if found is None:
        return []
    doubts = [
        f"Do not trust these numbers: {doubt.explanation} ({doubt.name} {doubt.value:.3g})." for doubt in found.doubts
    ]
    return [f'<p class="doubt">{escape(text)}</p>' for text in (*doubts, *(f"{text}." for text in found.remarks))]


def _chart(outcomes: "Sequence[Outcome]") -> list[str]:
    """Draw accuracy against the budget, certificates below."""
    from ...dashboard.figures.robustness_figure import attack_lines, robustness_figure
    from ...dashboard.theme import palette_of

    drawn = {
        role: [outcome for outcome in outcomes if outcome.details.get("kind", "attack") == role]
        for role in ("attack", "worst-case", "certificate")
    }
    lines = [line for role, found in drawn.items() for line in attack_lines(found, role)]  # type: ignore[arg-type]
    if not lines:
        return []
    figure = robustness_figure(lines, palette_of("light"))
    chart: str = figure.to_html(include_plotlyjs=True, full_html=False, config={"displaylogo": False})
    return [chart]


def _table(outcomes: "Sequence[Outcome]") -> str:
    head = "".join(f"<th>{name}</th>" for name in ("what", "norm or site", "epsilon", "accuracy", "details"))
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in _cells(outcome)) for outcome in outcomes)
    rows = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(outcome: "Outcome") -> tuple[str, ...]:
    accuracy = "" if outcome.accuracy != outcome.accuracy else f"{outcome.accuracy:.1%}"
    shown = (f"{key} {_short(value)}" for key, value in outcome.details.items() if _is_short(value) and key != "kind")
    return outcome.attack, outcome.norm, f"{outcome.epsilon:g}", accuracy, ", ".join(shown)


def _is_short(value: object) -> bool:
    return isinstance(value, int | float | str) or (isinstance(value, dict) and len(value) <= 8)


def _short(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_short(item)}" for key, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
