"""`mindscope armour ...`: how a trained model breaks, how much it leaks, and whether to believe the number."""

import typer

from ..user_code import calls_own_code
from .armour_arguments import ArmourCommand
from .attack_commands import attacks, evaluate
from .certify_command import certify
from .data_commands import drift, privacy
from .defence_commands import detect, measure
from .fuzz_command import fuzz

application = typer.Typer(name="armour", help="Attack a model and measure what it withstands.", no_args_is_help=True)

application.command("attacks")(attacks)
for _name, _function in (
    ("evaluate", evaluate),
    ("certify", certify),
    ("measure", measure),
    ("detect", detect),
    ("privacy", privacy),
    ("fuzz", fuzz),
    ("drift", drift),
):
    application.command(_name, cls=ArmourCommand)(calls_own_code()(_function))
