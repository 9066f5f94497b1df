"""Runs all checks that read the text of the program that runs."""

from collections.abc import Mapping

from ..check_result import CheckResult
from .contradictions import expressions_fit_their_names
from .discarded_results import results_are_used
from .orders import arrays_are_flattened_in_one_order, arrays_keep_one_order
from .reach import running_places
from .unread_values import values_are_read


def text_checks(script: str, sources: Mapping[str, str]) -> list[CheckResult]:
    """Return what the texts of the script and of the modules beside it tell, as `own_sources` has read them."""
    running = running_places(sources)
    if not running:
        return []
    results = [values_are_read(sources, script=script, running=running), *expressions_fit_their_names(sources)]
    results += [arrays_keep_one_order(sources), arrays_are_flattened_in_one_order(sources)]
    return [*results, results_are_used(sources, running=running)]
