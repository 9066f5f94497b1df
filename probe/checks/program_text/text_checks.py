"""Runs all checks that read the text of the program that runs."""

from collections.abc import Mapping
from types import FrameType

from ..check_result import CheckResult
from .contradictions import expressions_fit_their_names
from .discarded_results import results_are_used
from .module_places import NOWHERE, ModulePlaces
from .orders import arrays_are_flattened_in_one_order, arrays_keep_one_order
from .reach import Place, places_of, running_frames
from .taken_branches import taken_sources
from .unread_values import values_are_read


def text_checks(
    script: str, sources: Mapping[str, str], modules: Mapping[str, object] | None = None
) -> list[CheckResult]:
    """Return what the texts of the script and of the modules beside it tell, as `own_sources` has read them.

    Args:
        modules: The watched modules by site, of which those are named that a broken claim is about.
    """
    frames = running_frames(sources)
    running = places_of(frames)
    places = ModulePlaces(modules or {}, sources)
    return results_of(script, sources, frames, running=running, places=places) if running else []


def results_of(
    script: str,
    sources: Mapping[str, str],
    frames: Mapping[str, list[FrameType]],
    *,
    running: frozenset[Place],
    places: ModulePlaces = NOWHERE,
) -> list[CheckResult]:
    """Return what texts tell of a program of which these functions are running, at these places.

    Args:
        frames: Those of the functions, by path, of which settings are known; without any, all branches count.
    """
    # what a branch reads, a switch may spare
    results = [values_are_read(sources, script=script, running=running, places=places)]
    taken = taken_sources(sources, frames)
    results += [*expressions_fit_their_names(taken, places), arrays_keep_one_order(taken)]
    used = results_are_used(taken, running=running, places=places)
    return [*results, arrays_are_flattened_in_one_order(taken), used]
