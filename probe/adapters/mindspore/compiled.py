"""Cells of a MindSpore model that `@jit` compiles: they call no hooks inside, which the user is told."""

import logging
from collections.abc import Mapping
from typing import Any

from ...recording.recorder import Recorder

_log = logging.getLogger(__name__)
_SAID = "the cell is compiled by @jit: it is seen from outside, the cells inside it are not observed"


def tell_compiled(cells: Mapping[str, Any], recorder: Recorder) -> None:
    """Nothing; there is a warning and an event for each of the cells, which come by site, that is compiled."""
    for site, cell in cells.items():
        if getattr(cell.construct, "__wrapped_by_jit__", False):
            _log.warning("%s: %s", site or "(model)", _SAID)
            recorder.event("monitor_fault", site, collector="activation", error=_SAID)
