"""The options and arguments that several subcommands share."""

from typing import Annotated, Final

import typer

#: Where runs go and are looked for when nobody says otherwise.
DEFAULT_STORE: Final = "runs/"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store", envvar="MINDSCOPE_STORE", metavar="URL", help="A folder, one run file, or postgresql+psycopg://..."
    ),
]

StoreArgument = Annotated[
    str,
    typer.Argument(
        envvar="MINDSCOPE_STORE", metavar="[STORE]", help="A folder, one run file, or postgresql+psycopg://..."
    ),
]

#: Commands whose subject is a whole store take it as their argument; the option of all others serves there, too.
SameStoreOption = Annotated[str, typer.Option("--store", metavar="URL", help="The same as STORE.")]

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="An id, a unique prefix of one, a name, or 'latest'.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
