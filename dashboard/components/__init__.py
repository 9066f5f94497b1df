"""The pieces that pages are made of."""

from .badges import severity_badge, state_badge
from .cards import headline_cards
from .coded import coded
from .empty_state import empty_state
from .finding_card import finding_card
from .graph import graph
from .notice import notice
from .panel import panel
from .run_header import run_header, run_link, run_picker, run_status

__all__ = [
    "coded",
    "empty_state",
    "finding_card",
    "graph",
    "headline_cards",
    "notice",
    "panel",
    "run_header",
    "run_link",
    "run_picker",
    "run_status",
    "severity_badge",
    "state_badge",
]
