"""What stands on the page of ranks, and what its address may say."""

from typing import Final

from ...address import Key
from ...controls import METRIC, SITE

VIEW = Key("view", "raw", ("deviation", "raw"))
RANK = Key("rank", pattern=r"\d{1,9}", example="3")


class Id:
    """What stands on this page."""

    run: Final = "ranks-run"
    keys: Final = "ranks-keys"
    metric: Final = "ranks-metric"
    site: Final = "ranks-site"
    view: Final = "ranks-view"
    rank: Final = "ranks-rank"
    heat: Final = "ranks-heat"
    lines: Final = "ranks-lines"
    note: Final = "ranks-note"
    pace: Final = "ranks-pace"
    tick: Final = "ranks-tick"
    version: Final = "ranks-version"


CONTROLS: Final = (
    (Id.metric, "value", METRIC),
    (Id.site, "value", SITE),
    (Id.view, "value", VIEW),
    (Id.rank, "value", RANK),
)
