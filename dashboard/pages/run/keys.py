"""What the address of a live run may say, and which control says it."""

from typing import Final

from ...address import Key
from ...controls import METRIC, SITE, STEP
from ...ids import Live as Id
from ...spans import SPAN

SCALAR, SCALE = Key("scalar", "loss"), Key("scale", "linear", ("linear", "log"))
MAPS, VIEW = Key("maps"), Key("view", "deviation", ("deviation", "raw"))
CONTROLS: Final = (
    (Id.scalar, "value", SCALAR),
    (Id.scale, "value", SCALE),
    (Id.maps, "value", MAPS),
    (Id.view, "value", VIEW),
    (Id.span, "data", SPAN),
    (Id.metric, "value", METRIC),
    (Id.site, "value", SITE),
    (Id.step, "value", STEP),
)
