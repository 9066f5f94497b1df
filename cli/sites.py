"""`mindscope sites script.py` prints what the model of a script is made of."""

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from .failures import WrongUse
from .options import JsonOption
from .output import add_row, console, print_json, table
from .script import existing_script


def sites(
    words: Annotated[list[str], typer.Argument(metavar="SCRIPT [ARGS]...", help="The script and its own arguments.")],
    as_document: JsonOption = False,
) -> int:
    """Print the modules of the model that a script trains; the script is stopped after the first forward."""
    from ..probe.sites import sites_of_script
    from ..storage import display_site

    script = existing_script(words[0])
    with redirect_stdout(sys.stderr):  # what the script prints is not ours
        found = sites_of_script(script, words[1:])
    if not found:
        raise WrongUse(f"{words[0]} trained no model that could be watched; it must call one with gradients on")
    if as_document:
        print_json({"script": words[0], "sites": found})
        return 0
    listing = table("", "site", "type", "calls", "output", "parameters", right=("calls", "parameters"))
    for one in found:
        add_row(
            listing, display_site(one.site), one.kind, str(one.calls), ", ".join(one.outputs), f"{one.parameters:,}"
        )
    console().print(listing)
    return 0
