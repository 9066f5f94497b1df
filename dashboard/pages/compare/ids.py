"""What stands on the page that compares, and what its address may say."""

from typing import Final

from ...address import Key
from ...controls import METRIC, SITE
from ...data.axes import AXES

OTHER = Key("with")
ALONG = Key("along", "step", AXES)
TOLERANCE = Key("tolerance", "0", pattern=r"\d{1,12}(\.\d{1,12})?(e-?\d{1,3})?", example="1e-3")


class Id:
    """What stands on this page."""

    run: Final = "compare-run"
    keys: Final = "compare-keys"
    other: Final = "compare-other"
    metric: Final = "compare-metric"
    site: Final = "compare-site"
    along: Final = "compare-along"
    tolerance: Final = "compare-tolerance"
    verdict: Final = "compare-verdict"
    lines: Final = "compare-lines"
    map: Final = "compare-map"
    note: Final = "compare-note"
    differences: Final = "compare-differences"


CONTROLS: Final = (
    (Id.other, "value", OTHER),
    (Id.metric, "value", METRIC),
    (Id.site, "value", SITE),
    (Id.along, "value", ALONG),
    (Id.tolerance, "value", TOLERANCE),
)
