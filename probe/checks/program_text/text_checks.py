"""Runs all checks that read the text of the program that runs."""

import logging
from collections.abc import Mapping

from ..check_result import CheckResult
from .contradictions import expressions_fit_their_names
from .orders import arrays_keep_one_order
from .reach import running_places
from .unread_values import values_are_read

_log = logging.getLogger(__name__)


def text_checks(script: str, sources: Mapping[str, str]) -> list[CheckResult]:
    """Return what the texts of the script and of the modules beside it tell, as `own_sources` has read them."""
    try:
        running = running_places(sources)
        if not running:
            return []
        results = [values_are_read(sources, script=script, running=running), *expressions_fit_their_names(sources)]
        return [*results, arrays_keep_one_order(sources)]
    except Exception:  # noqa: BLE001  the training must not feel that the observation fails
        _log.debug("the text of the program cannot be read", exc_info=True)
        return []
