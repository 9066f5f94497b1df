"""The ids of components, one class a page, so that a callback and a layout never disagree."""

from typing import Final


class Shell:
    """What stands around every page."""

    url: Final = "url"
    provider: Final = "provider"
    scheme: Final = "scheme"
    scheme_choice: Final = "scheme-choice"
    scheme_button: Final = "scheme-button"
    navigation: Final = "navigation"
    content: Final = "content"
    shown: Final = "shown"
    banner: Final = "banner"
    connection: Final = "connection"  # written by assets/connection.js


class Overview:
    """The table of runs."""

    tick: Final = "overview-tick"
    grid: Final = "overview-grid"
    counts: Final = "overview-counts"
    search: Final = "overview-search"


class Live:
    """The live page of a run."""

    url: Final = "live-url"
    tick: Final = "live-tick"
    cursor: Final = "live-cursor"
    tail: Final = "live-tail"
    redraw: Final = "live-redraw"
    beat: Final = "live-beat"
    run: Final = "live-run"
    follow: Final = "live-follow"
    status: Final = "live-status"
    cards: Final = "live-cards"
    scalar: Final = "live-scalar"
    scale: Final = "live-scale"
    curve: Final = "live-curve"
    metric: Final = "live-metric"
    view: Final = "live-view"
    heat: Final = "live-heat"
    heat_note: Final = "live-heat-note"
    site: Final = "live-site"
    step: Final = "live-step"
    detail: Final = "live-detail"


class Findings:
    """The findings of a run."""

    tick: Final = "findings-tick"
    version: Final = "findings-version"
    run: Final = "findings-run"
    list: Final = "findings-list"
    status: Final = "findings-status"


class Robustness:
    """What attacks did to a run's model."""

    run: Final = "robustness-run"
    body: Final = "robustness-body"
