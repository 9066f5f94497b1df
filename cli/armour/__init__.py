"""`mindscope armour ...`: how a trained model breaks, how much it leaks, and whether to believe the number."""

import typer

from . import attacks, certify, detect, drift, evaluate, fuzz, measure, privacy

application = typer.Typer(name="armour", help="Attack a model and measure what it withstands.", no_args_is_help=True)

application.command("evaluate")(evaluate.evaluate)
application.command("attacks")(attacks.attacks)
application.command("certify")(certify.certify)
application.command("measure")(measure.measure)
application.command("detect")(detect.detect)
application.command("privacy")(privacy.privacy)
application.command("fuzz")(fuzz.fuzz)
application.command("drift")(drift.drift)
