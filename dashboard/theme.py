"""Colours that colour-blind people can tell apart, in light and dark, and the Plotly template made of them."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal

import plotly.graph_objects as go

from ..storage import Severity

Scheme = Literal["light", "dark"]
ColorScale = tuple[tuple[float, str], ...]

FONT: Final = "Inter, 'Segoe UI', system-ui, -apple-system, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of one scheme.

    Args:
        lines: Colours of series; hues after Okabe and Ito 2008, distinguished under every common colour blindness.
        diverging: From far below through usual to far above; its middle is the surface, so that only news has colour.
        sequential: From small to large.
        non_finite: NaN and infinities; in no scale, so that it is never mistaken for a value.
    """

    scheme: Scheme
    surface: str
    text: str
    muted: str
    grid: str
    lines: tuple[str, ...]
    error: str
    warning: str
    info: str
    non_finite: str
    diverging: ColorScale
    sequential: ColorScale

    def severity(self, severity: Severity) -> str:
        """Return the colour of a severity."""
        return {"error": self.error, "warning": self.warning, "info": self.info}[severity]


LIGHT: Final = Palette(
    scheme="light",
    surface="#ffffff",
    text="#1d2433",
    muted="#5f6b7d",
    grid="#e9ecf1",
    lines=("#2a62c9", "#c2570c", "#0b8468", "#a8498a", "#a87400", "#3c94c9"),
    error="#c4420a",
    warning="#a87400",
    info="#2a62c9",
    non_finite="#c81e78",
    diverging=(
        (0.0, "#123f8c"),
        (0.18, "#5b8fd6"),
        (0.36, "#dde7f5"),
        (0.5, "#f7f8fa"),
        (0.64, "#fbe8d6"),
        (0.82, "#ec8f3c"),
        (1.0, "#a83b00"),
    ),
    sequential=((0.0, "#f1f5fb"), (0.25, "#b5d0ee"), (0.5, "#6aa0d8"), (0.75, "#2f6cb3"), (1.0, "#123a70")),
)

DARK: Final = Palette(
    scheme="dark",
    surface="#171c24",
    text="#e6eaf0",
    muted="#93a0b2",
    grid="#262e3a",
    lines=("#7db0ff", "#ff9d57", "#45c9a5", "#e08cc6", "#e2b94a", "#8fd0f5"),
    error="#ff8a4c",
    warning="#e2b94a",
    info="#7db0ff",
    non_finite="#e0559a",
    diverging=(
        (0.0, "#8fcbff"),
        (0.18, "#3f7fc6"),
        (0.36, "#1f2c40"),
        (0.5, "#1b212b"),
        (0.64, "#352a22"),
        (0.82, "#cc6f28"),
        (1.0, "#ffbd85"),
    ),
    sequential=((0.0, "#1b2330"), (0.25, "#23476f"), (0.5, "#3576b5"), (0.75, "#6cabe8"), (1.0, "#d3e8ff")),
)


def palette_of(scheme: str | None) -> Palette:
    """Return the palette of a scheme; light for whatever is not `dark`."""
    return DARK if scheme == "dark" else LIGHT


#: The scheme of the page that is being laid out: who draws in a layout has no control to read it from.
SCHEME_SHOWN: Final[ContextVar[str | None]] = ContextVar("scheme_shown", default=None)


def template(palette: Palette) -> go.layout.Template:
    """Build the template that every figure starts from: no frame, quiet grid, the page's own font."""
    axis = {
        "gridcolor": palette.grid,
        "linecolor": palette.grid,
        "zeroline": False,
        "ticks": "outside",  # of no colour: they keep labels off the figure
        "ticklen": 4,
        "tickcolor": "rgba(0,0,0,0)",
        "tickfont": {"color": palette.muted, "size": 11},
        "title": {"font": {"color": palette.muted, "size": 11}, "standoff": 8},
    }
    return go.layout.Template(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 12, "color": palette.text},
            "colorway": list(palette.lines),
            "margin": {"l": 56, "r": 16, "t": 12, "b": 40},
            "xaxis": axis,
            "yaxis": axis,
            "hovermode": "closest",
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": palette.muted, "activecolor": palette.text},
            "hoverlabel": {
                "bgcolor": palette.surface,
                "bordercolor": palette.grid,
                "align": "left",
                "font": {"color": palette.text, "family": FONT, "size": 12},
            },
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": palette.muted}},
        }
    )


def faint(color: str, share: float = 0.22) -> str:
    """Make the colour, spelled `#rrggbb`, so transparent that what is behind it shows."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"
