"""Text in which words between backticks are to be typed."""

import re

from dash import html
from dash.development.base_component import Component


def coded(text: str) -> list[str | Component]:
    """The pieces of the text, what stood between two backticks as code; a backtick without a partner stays."""
    pieces = re.split(r"`([^`]+)`", text)
    shown = [html.Code(piece, className="inline") if at % 2 else piece for at, piece in enumerate(pieces)]
    return [piece for piece in shown if piece]
