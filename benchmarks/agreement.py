"""Whether the store, the command line and the pages say the same of many recordings, those of `tests/agreement`."""

import io
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from mindscope.cli import main
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store
from rows import at_most

from tests.agreement.recordings import RECORDINGS, make
from tests.agreement.statements import all_said, differences

_FACTS = {
    "verdict": "verdicts",
    "cause": "first causes",
    "state": "states",
    "last": "last losses",
    "best": "best losses",
}
#: Of the recordings that `--quick` makes.
_FEW = 12


def agreement_rows(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """How many recordings are told differently by one of seven places, fact by fact."""
    names = [name for name in RECORDINGS if name != "evaluation"][: _FEW if quick else None]
    make(names, folder)
    found = dict.fromkeys(_FACTS, 0)
    with open_store(str(folder)) as store:
        reader = Reader(store)
        runs = store.runs()
        for run in runs:
            for fact in differences(all_said(store, reader, run, _printed)):
                found[fact] += 1
    case = f"{len(runs)} recordings"
    return [at_most(0, case, f"{words} told differently", found[fact], "runs") for fact, words in _FACTS.items()]


@cache
def _printed(*arguments: str) -> str:
    """Return what the command prints."""
    with redirect_stdout(io.StringIO()) as printed:
        main([*arguments])
    return printed.getvalue()
