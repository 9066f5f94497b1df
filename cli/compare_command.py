"""`mindscope compare A B` finds the first difference of two runs, and lists what differs."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from .failures import WrongUse
from .output import add_row, console, print_json, remark, table
from .store_options import DEFAULT_STORE, JsonOption, StoreOption, open_existing

if TYPE_CHECKING:
    from ..insight.compare import DumpedPair, TensorDifference
    from ..storage import Run, Store

#: Differing tensors that are listed by default; everything computed after the first one differs as well.
_MOST = 40
_Run = Annotated[str, typer.Argument(metavar="RUN", help="An id, a unique prefix, a name or 'latest'.")]
_OtherStore = Annotated[str, typer.Option("--other-store", metavar="URL", help="The store of B, if not that of A.")]
_Tensors = Annotated[bool, typer.Option("--tensors", help="Compare the whole tensors that both have dumped.")]
_All = Annotated[bool, typer.Option("--all", help="With --tensors: list all of them, equal ones too.")]
_Ranks = Annotated[
    str,
    typer.Option(
        "--ranks",
        metavar="A,B",
        help="The rank of each run, their first ones by default; 0,1 compares two ranks of one run.",
    ),
]


def compare(
    first: _Run,
    second: _Run,
    store: StoreOption = DEFAULT_STORE,
    other_store: _OtherStore = "",
    ranks: _Ranks = "",
    tensors: _Tensors = False,
    everything: _All = False,
    as_document: JsonOption = False,
) -> int:
    """Find the first difference of two runs. Exit code 1 if they differ by more than rounding, else 0."""
    named = _ranks(ranks) if ranks else None
    if everything and not tensors:
        raise WrongUse("--all lists all tensors of --tensors; give both")
    from ..insight.compare import compare as comparison_of
    from ..insight.compare import comparison_to_json, render_comparison

    with ExitStack() as stack:
        first_store = stack.enter_context(open_existing(store))
        second_store = stack.enter_context(open_existing(other_store)) if other_store else first_store
        runs = first_store.find_run(first), second_store.find_run(second)
        chosen = named or (runs[0].first_rank, runs[1].first_rank)
        for run, rank in zip(runs, chosen, strict=True):
            if rank not in run.ranks:
                known = ", ".join(map(str, run.ranks))
                raise WrongUse(f"run {run.name!r} has no rank {rank}; its ranks are {known}")
        if tensors:
            return _compare_tensors((first_store, second_store), runs, chosen, as_document, everything)
        found = comparison_of((first_store, second_store), runs, chosen)
    if as_document:
        print_json(comparison_to_json(found))
    else:
        print(render_comparison(found))
    return int(found.verdict not in ("identical", "within_noise"))


def _compare_tensors(
    stores: "tuple[Store, Store]", runs: "tuple[Run, Run]", ranks: tuple[int, int], as_document: bool, everything: bool
) -> int:
    from ..insight.compare import compare_dumps
    from ..storage import tensor_files

    blobs = tensor_files(stores[0], runs[0]), tensor_files(stores[1], runs[1])
    found = list(compare_dumps(stores, runs, blobs, ranks))
    if not found:
        raise WrongUse(f"{runs[0].name!r} and {runs[1].name!r} have dumped no tensor in common; configure `dump`")
    if as_document:
        print_json({"runs": [run.id for run in runs], "tensors": found})
    else:
        _print_tensors(found, everything)
        if any(pair.difference is not None and pair.difference.differing for pair in found):
            remark(f"which of two outputs is right? mindscope replay {runs[0].id} SITE --module FILE.py:NAME")
    return int(any(pair.differs for pair in found))


def _print_tensors(found: "list[DumpedPair]", everything: bool) -> None:
    """Print the tensors that differ, the first one first, and how many are equal."""
    from ..storage import display_site

    differing = [pair for pair in found if pair.differs]
    shown = found if everything else differing[:_MOST]
    columns = ("step", "site", "subject", "differing", "max abs", "max rel", "cosine", "first", "values")
    listing = table("", *columns)
    for pair in shown:
        module, bracket, which = pair.site.partition("[")
        site = f"{display_site(module)}{bracket}{which}{f' call {pair.call}' if pair.call else ''}"
        cells = (str(pair.step), site, pair.subject)
        add_row(listing, *cells, *_cells(pair.difference))
    out = console()
    if shown:
        out.print(listing)
    if differing:
        rest = f", the first {_MOST} of which are listed" if len(shown) < len(differing) else ""
        words = f"{len(differing)} of {len(found)} tensors differ{rest}; {len(found) - len(differing)} are equal"
    elif len(found) == 1:
        words = "the one tensor that both have dumped is equal"
    else:
        words = f"all {len(found)} tensors that both have dumped are equal"
    out.print(words if everything else f"{words}; --all lists all", markup=False)


def _cells(found: "TensorDifference | None") -> tuple[str, ...]:
    if found is None:
        return ("other shapes", "", "", "", "", "")
    first = "" if found.first is None else str(list(found.first))
    values = "" if found.values is None else f"{found.values[0]:.9g} {found.values[1]:.9g}"
    share = f"{found.differing} of {found.size}"
    return share, f"{found.max_abs:.3g}", f"{found.max_rel:.3g}", f"{found.cosine:.9f}", first, values


def _ranks(text: str) -> tuple[int, int]:
    words = text.split(",")
    if len(words) != 2 or not all(word.strip().isdigit() for word in words):
        raise WrongUse(f"--ranks expects two numbers, as 0,1, got {text!r}")
    return int(words[0]), int(words[1])
