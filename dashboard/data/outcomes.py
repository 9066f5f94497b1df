"""What attacks did to the model of a run."""

from ...storage import Outcome, Run
from .reader import Reader


def outcomes(reader: Reader, run: str) -> tuple[tuple[Run, tuple[Outcome, ...]], ...]:
    """The evaluations of a run that have outcomes, the run itself among them, newest first."""
    about = [one for one in reader.runs() if one.id == run or one.parent == run]
    pairs = ((one, _of(reader, one.id)) for one in about)
    return tuple((one, found) for one, found in pairs if found)


def _of(reader: Reader, run: str) -> tuple[Outcome, ...]:
    return reader.cached(run, "outcomes", lambda store: store.outcomes(run))
