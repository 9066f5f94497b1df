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
    keys: Final = "overview-keys"
    order: Final = "overview-order"
    actions: Final = "overview-actions"
    chosen: Final = "overview-chosen"
    name: Final = "overview-name"
    tags: Final = "overview-tags"
    remark: Final = "overview-remark"
    save: Final = "overview-save"
    compare: Final = "overview-compare"
    delete: Final = "overview-delete"
    question: Final = "overview-question"
    asked: Final = "overview-asked"
    typed: Final = "overview-typed"
    confirm: Final = "overview-confirm"
    said: Final = "overview-said"


class Live:
    """The live page of a run."""

    keys: Final = "live-keys"
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
    maps: Final = "live-maps"
    span: Final = "live-span"
    metric: Final = "live-metric"
    view: Final = "live-view"
    heat: Final = "live-heat"
    heat_name: Final = "live-heat-name"
    heat_note: Final = "live-heat-note"
    site: Final = "live-site"
    step: Final = "live-step"
    detail: Final = "live-detail"


class Layers:
    """Layer by step for any metric."""

    keys: Final = "layers-keys"
    tick: Final = "layers-tick"
    version: Final = "layers-version"
    run: Final = "layers-run"
    metric: Final = "layers-metric"
    view: Final = "layers-view"
    order: Final = "layers-order"
    form: Final = "layers-form"
    scale: Final = "layers-scale"
    glob: Final = "layers-glob"
    span: Final = "layers-span"
    picture: Final = "layers-picture"
    name: Final = "layers-name"
    note: Final = "layers-note"


class Tensor:
    """One tensor in full."""

    keys: Final = "tensor-keys"
    tick: Final = "tensor-tick"
    version: Final = "tensor-version"
    run: Final = "tensor-run"
    metric: Final = "tensor-metric"
    site: Final = "tensor-site"
    step: Final = "tensor-step"
    axis: Final = "tensor-axis"
    log: Final = "tensor-log"
    over: Final = "tensor-over"
    others: Final = "tensor-others"
    span: Final = "tensor-span"
    body: Final = "tensor-body"
    curve: Final = "tensor-curve"


class Findings:
    """The findings of a run."""

    tick: Final = "findings-tick"
    version: Final = "findings-version"
    run: Final = "findings-run"
    list: Final = "findings-list"
    status: Final = "findings-status"
    keys: Final = "findings-keys"
    mute: Final = "findings-mute"
    unmute: Final = "findings-unmute"
    condition: Final = "findings-condition"
    replay: Final = "findings-replay"
    hits: Final = "findings-hits"
    tried: Final = "findings-tried"


class Robustness:
    """What attacks did to a run's model."""

    run: Final = "robustness-run"
    keys: Final = "robustness-keys"
    norm: Final = "robustness-norm"
    attack: Final = "robustness-attack"
    epsilon: Final = "robustness-epsilon"
    body: Final = "robustness-body"
