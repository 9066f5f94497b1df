"""`mindscope replay RUN SITE --module FILE:NAME` tells a wrong kernel from a bad input."""

from typing import TYPE_CHECKING, Annotated

import typer

from .configuration_commands import fields_of
from .output import add_row, console, print_json, table
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing
from .user_code import load_model

if TYPE_CHECKING:
    from ..probe.replay import Judgement, Replayed

_WORDS = {
    "rounding": "right: the output is what inputs and weights make, up to the rounding of its dtype; "
    "if it looks wrong, it was wrong before",
    "wrong_kernel": "wrong: the output is not what inputs and weights make; the kernel, or its precision, is to blame",
    "bad_weights": "right for its weights: they are not finite, and nothing finite can come of them",
    "bad_input": "right for its inputs: float64 makes nothing finite of them either",
    "overflow": "right within its dtype: the values, or some on the way to them, are too large for it",
}


def replay(
    run: RunArgument,
    site: Annotated[str, typer.Argument(metavar="SITE", help="The module's dotted name; '(model)' is the model.")],
    module: Annotated[
        str,
        typer.Option(
            "--module",
            metavar="FILE.py:NAME",
            help="What makes the module of the site, or the whole model; its weights come from the run.",
        ),
    ],
    step: Annotated[int, typer.Option("--step", metavar="N", help="By default the newest that was dumped.")] = -1,
    call: Annotated[int, typer.Option("--call", metavar="N", help="Which call within the step, from 0.")] = 0,
    micro_step: Annotated[int, typer.Option("--micro-step", metavar="N", help="Which micro-step.")] = 0,
    rank: Annotated[int, typer.Option("--rank", metavar="N", help="Of which process.")] = 0,
    evaluating: Annotated[bool, typer.Option("--eval", help="Compute it in evaluation mode.")] = False,
    options: Annotated[
        list[str] | None, typer.Option("--with", metavar="KEY=VALUE", help="An argument of the call that is no tensor.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Compute a dumped module again in float64. Exit code 1 when its output is not what its inputs make."""
    from ..probe.replay import CallReference, check_recorded
    from ..probe.replay import replay as replay_of
    from ..storage import ROOT_SITE, display_site

    place = ROOT_SITE if site == display_site(ROOT_SITE) else site
    asked = CallReference(place, None if step < 0 else step, call, micro_step, rank)
    with open_existing(store) as opened:
        of = opened.find_run(run)
        check_recorded(opened, of, asked)  # before a model is made, which may take long
        found = replay_of(
            opened,
            of,
            load_model(module),
            asked,
            training=not evaluating,
            options=fields_of(options or ()),
        )
    if as_document:
        print_json(found)
    else:
        _print(found)
    return int(found.is_wrong)


def _print(found: "Replayed") -> None:
    from ..storage import display_site

    out = console()
    listing = table(
        f"{display_site(found.site)} at step {found.step}",
        *("output", "shape", "dtype", "verdict", "max abs", "max rel", "ulps", "of noise", "wrong", "worst"),
    )
    for path, one in found.outputs.items():
        add_row(listing, path or "output", *_cells(one))
    out.print(listing)
    for path, one in found.outputs.items():
        lost = f" (about {one.lost_bits:.0f} bits are missing everywhere)" if one.lost_bits >= 1.0 else ""
        out.print(f"{path or 'output'}: {_WORDS[one.verdict]}{lost}")
    for note in found.notes:
        out.print(f"note: {note}")


def _cells(one: "Judgement") -> tuple[str, ...]:
    size = 1
    for axis in one.shape:
        size *= axis
    return (
        str(list(one.shape)),
        one.dtype,
        one.verdict.replace("_", " "),
        f"{one.max_abs:.3g}",
        f"{one.max_rel:.3g}",
        f"{one.max_ulps:.3g}",
        f"{one.max_noise:.3g}",
        f"{one.wrong} of {size}",
        f"{list(one.worst)}: {one.recorded:.9g}, exact {one.exact:.9g}",
    )
