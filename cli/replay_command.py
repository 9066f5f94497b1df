"""`mindscope replay RUN SITE --module FILE:NAME` distinguishes a wrong kernel from a bad input."""

from typing import TYPE_CHECKING, Annotated

import typer

from .configuration_commands import fields_of
from .output import add_row, console, print_json, table
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing
from .user_code import load_model

if TYPE_CHECKING:
    from ..probe.replay import Judgement, Replayed

_VERDICTS = {
    "rounding": "right: the output follows from inputs and weights, up to the rounding of its dtype; "
    "if it looks wrong, an earlier module is to blame",
    "wrong_kernel": "wrong: the output does not follow from inputs and weights; blame the kernel or its precision",
    "bad_weights": "right for its weights: they are not finite, so the output cannot be finite",
    "bad_input": "right for its inputs: the output is not finite in float64 either",
    "overflow": "right within its dtype: the values, or intermediate ones, are too large for it",
}


def replay(
    run: RunArgument,
    site: Annotated[str, typer.Argument(metavar="SITE", help="The module's dotted name; '(model)' is the model.")],
    module: Annotated[
        str,
        typer.Option(
            "--module",
            metavar="FILE.py:NAME",
            help="The module of the site, or the whole model; its weights come from the run.",
        ),
    ],
    step: Annotated[int, typer.Option("--step", metavar="N", help="The newest dumped step by default.")] = -1,
    call: Annotated[int, typer.Option("--call", metavar="N", help="Call within the step, from 0.")] = 0,
    micro_step: Annotated[int, typer.Option("--micro-step", metavar="N", help="Micro-step within the step.")] = 0,
    rank: Annotated[
        int | None,
        typer.Option("--rank", metavar="N", min=0, help="Rank of the process; the first of the run by default."),
    ] = None,
    evaluating: Annotated[bool, typer.Option("--eval", help="Compute it in evaluation mode.")] = False,
    options: Annotated[
        list[str] | None, typer.Option("--with", metavar="KEY=VALUE", help="An argument of the call that is no tensor.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Compute a dumped module again in float64. Exit code 1 if the recorded output does not follow from its inputs."""
    from ..probe.replay import CallReference, check_recorded
    from ..probe.replay import replay as replay_of
    from ..storage import ROOT_SITE, display_site

    name = ROOT_SITE if site == display_site(ROOT_SITE) else site
    reference = CallReference(name, None if step < 0 else step, call, micro_step, rank)
    with open_existing(store) as opened:
        of = opened.find_run(run)
        check_recorded(opened, of, reference)  # first, since making the model may take long
        found = replay_of(
            opened,
            of,
            load_model(module),
            reference,
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
    for path, judgement in found.outputs.items():
        add_row(listing, path or "output", *_cells(judgement))
    out.print(listing)
    for path, judgement in found.outputs.items():
        lost = f" (about {judgement.lost_bits:.0f} bits are missing everywhere)" if judgement.lost_bits >= 1.0 else ""
        out.print(f"{path or 'output'}: {_VERDICTS[judgement.verdict]}{lost}")
    for note in found.notes:
        out.print(f"note: {note}")


def _cells(judgement: "Judgement") -> tuple[str, ...]:
    size = 1
    for axis in judgement.shape:
        size *= axis
    return (
        str(list(judgement.shape)),
        judgement.dtype,
        judgement.verdict.replace("_", " "),
        f"{judgement.max_abs:.3g}",
        f"{judgement.max_rel:.3g}",
        f"{judgement.max_ulps:.3g}",
        f"{judgement.max_noise:.3g}",
        f"{judgement.wrong} of {size}",
        f"{list(judgement.worst)}: {judgement.recorded:.9g}, exact {judgement.exact:.9g}",
    )
