"""What fuzzing covers and what faults cost, as outcomes."""

from collections.abc import Sequence

import numpy as np

from ...storage import Json, Outcome
from .coverage import Coverage
from .faults import FaultOutcome
from .fuzzer import Corpus


def coverage_outcome(before: Coverage, after: Coverage, corpus: Corpus, seeds: int, curve: Sequence[Json]) -> Outcome:
    """What fuzzing covers beyond its seeds; accuracy is the share of the corpus that keeps its seed's label.

    Args:
        curve: One entry a round, as far as it was watched.
    """
    details: dict[str, Json] = {
        "kind": "coverage",
        "before": _shares(before),
        "after": _shares(after),
        "rounds": corpus.rounds,
        "inputs": len(corpus.inputs),
        "seeds": seeds,
        "failures": int(corpus.failed.sum()),
        "curve": list(curve),
    }
    return Outcome("fuzz", "", 0.0, float(np.mean(~corpus.failed)), len(corpus.inputs), details=details)


def fault_outcome(found: FaultOutcome, samples: int) -> Outcome:
    """The accuracy that is left under one fault; the norm's place names the site, epsilon's the broken elements."""
    details: dict[str, Json] = {
        "kind": "fault",
        "fault": found.fault,
        "where": found.where,
        "site": found.site,
        "elements": found.elements,
        "clean_accuracy": found.clean_accuracy,
        "drop": found.drop,
    }
    name = f"fault {found.fault} {found.where}"
    return Outcome(name, found.site, float(found.elements), found.accuracy, samples, details=details)


def _shares(coverage: Coverage) -> dict[str, Json]:
    return {name: getattr(coverage, name) for name in Coverage.__slots__}
