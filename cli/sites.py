"""`mindscope sites script.py` prints what the model of a script is made of."""

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from .failures import WrongUse
from .options import JsonOption
from .output import add_row, console, print_json, remark, table
from .script import existing_script


def sites(
    words: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARGS]...", help="The script, or -m MODULE, and its arguments.")
    ],
    as_document: JsonOption = False,
) -> int:
    """Print the modules of the model that a script trains; the script is stopped after the first forward.

    Nothing is recorded, also where the script calls mindscope.watch itself.
    """
    from ..probe.sites import sites_of_script
    from ..storage import display_site

    script, arguments = existing_script(words)
    with redirect_stdout(sys.stderr):  # what the script prints is not ours
        seen = sites_of_script(script, arguments)
    if seen.reason:
        raise WrongUse(seen.reason)
    if as_document:
        print_json({"script": str(script), "sites": seen.sites, "is_whole": seen.is_whole, "others": seen.others})
        return 0
    listing = table("", "site", "type", "calls", "output", "parameters", right=("calls", "parameters"))
    for one in seen.sites:
        add_row(
            listing, display_site(one.site), one.kind, str(one.calls), ", ".join(one.outputs), f"{one.parameters:,}"
        )
    console().print(listing)
    if not seen.is_whole:
        remark("the first forward did not come to its end; what was called before that is shown")
    if seen.others:
        remark(f"not shown: {', '.join(seen.others)}; several models are watched as one with watch(ModuleDict(...))")
    return 0
