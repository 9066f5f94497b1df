"""`mindscope armour ...`: how a trained model breaks, how much it leaks, and whether to believe the number."""

import typer

from ..own_code import calls_own_code
from . import attacks, certify, detect, drift, evaluate, fuzz, measure, privacy

application = typer.Typer(name="armour", help="Attack a model and measure what it withstands.", no_args_is_help=True)

application.command("attacks")(attacks.attacks)
for _name, _command in (
    ("evaluate", evaluate.evaluate),
    ("certify", certify.certify),
    ("measure", measure.measure),
    ("detect", detect.detect),
    ("privacy", privacy.privacy),
    ("fuzz", fuzz.fuzz),
    ("drift", drift.drift),
):
    application.command(_name)(calls_own_code()(_command))
