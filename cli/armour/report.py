"""A report in one HTML file that opens offline: the chart library stands inside of it."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...storage import Outcome

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #d8dee4 }
.doubt { border-left: 4px solid #c0392b; padding: .4rem .8rem; background: #fdf0ee }
"""


def write_report(path: str, outcomes: "Sequence[Outcome]") -> None:
    """Nothing; the file is there whole, or as it was."""
    place = Path(path)
    waiting = place.with_name(place.name + ".part")
    waiting.write_text(report(outcomes), encoding="utf-8")
    waiting.replace(place)


def report(outcomes: "Sequence[Outcome]") -> str:
    """The page: verdict, chart, and a table of every outcome."""
    parts = [*_verdict(outcomes), *_chart(outcomes), _table(outcomes)]
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>mindscope armour</title>'
        f"<style>{_STYLE}</style></head><body><h1>mindscope armour</h1>\n{body}\n</body></html>\n"
    )


def _verdict(outcomes: "Sequence[Outcome]") -> list[str]:
    found: dict[str, str] = {}
    for outcome in outcomes:
        details: Any = outcome.details
        for one in details.get("verdict", ()):
            text = f"Do not trust these numbers: {one['explanation']} ({one['name']} {one['value']:.3g})."
            found[one["name"]] = f'<p class="doubt">{escape(text)}</p>'
    return list(found.values())


def _chart(outcomes: "Sequence[Outcome]") -> list[str]:
    """Accuracy against the budget, certificates below."""
    from ...dashboard.figures.robustness import attack_lines, robustness_figure
    from ...dashboard.theme import palette_of

    drawn = {
        role: [one for one in outcomes if one.details.get("kind", "attack") == role]
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
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(one))}</tr>" for one in outcomes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(outcome: "Outcome") -> tuple[str, ...]:
    accuracy = "" if outcome.accuracy != outcome.accuracy else f"{outcome.accuracy:.1%}"
    told = (f"{key} {_short(value)}" for key, value in outcome.details.items() if _is_short(value) and key != "kind")
    return outcome.attack, outcome.norm, f"{outcome.epsilon:g}", accuracy, ", ".join(told)


def _is_short(value: object) -> bool:
    return isinstance(value, int | float | str) or (isinstance(value, dict) and len(value) <= 8)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_short(one)}" for key, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
