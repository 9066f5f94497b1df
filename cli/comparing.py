"""`mindscope compare A B` says where two runs part first, and in what they differ."""

from contextlib import ExitStack
from typing import Annotated

import typer

from .failures import WrongUse
from .options import DEFAULT_STORE, JsonOption, StoreOption
from .output import print_json
from .stores import open_existing

_Run = Annotated[str, typer.Argument(metavar="RUN", help="An id, a unique prefix, a name or 'latest'.")]
_OtherStore = Annotated[str, typer.Option("--other-store", metavar="URL", help="Where B is, if not where A is.")]
_Ranks = Annotated[
    str, typer.Option("--ranks", metavar="A,B", help="Which rank of each; 0,1 compares ranks of one run.")
]


def compare(
    first: _Run,
    second: _Run,
    store: StoreOption = DEFAULT_STORE,
    other_store: _OtherStore = "",
    ranks: _Ranks = "0,0",
    as_document: JsonOption = False,
) -> int:
    """Say where two runs part first. Exit code 1 when they do, 0 when they are equal or differ by rounding alone."""
    chosen = _ranks(ranks)
    from ..insight.compare import compare as comparison_of
    from ..insight.compare import comparison_to_json, render_comparison

    with ExitStack() as stack:
        one = stack.enter_context(open_existing(store))
        other = stack.enter_context(open_existing(other_store)) if other_store else one
        runs = one.find_run(first), other.find_run(second)
        for run, rank in zip(runs, chosen, strict=True):
            if rank not in run.ranks:
                known = ", ".join(map(str, run.ranks))
                raise WrongUse(f"run {run.name!r} has no rank {rank}; its ranks are {known}")
        found = comparison_of((one, other), runs, chosen)
    if as_document:
        print_json(comparison_to_json(found))
    else:
        print(render_comparison(found))
    return int(found.verdict not in ("identical", "within_noise"))


def _ranks(text: str) -> tuple[int, int]:
    words = text.split(",")
    if len(words) != 2 or not all(word.strip().isdigit() for word in words):
        raise WrongUse(f"--ranks expects two numbers, as 0,1, got {text!r}")
    return int(words[0]), int(words[1])
