"""`mindscope config` writes, checks and explains monitoring configurations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from .failures import WrongUse
from .options import JsonOption
from .output import add_row, console, print_json, table

if TYPE_CHECKING:
    from ..probe import Config, Schedule

application = typer.Typer(help="Write, check and explain a monitoring configuration.", no_args_is_help=True)

_File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; a configuration of msprobe will do.")]

_TEMPLATE: Final = """\
# What mindscope records of a training. These are the defaults; what is commented out is off, or an example.
every: 1                      # cadence of every subject that says nothing else
# subjects:                   # a number is a cadence, false is off
#   activation: {every: 10, first: 100, windows: [[5000, 5100]]}
#   gradient: {per_decade: 20, start: 1000, stop: 90000}
#   optimizer: false
modules: ["*"]                # globs over the sites of modules, as `mindscope sites SCRIPT` prints them
parameters: ["*"]             # and of parameters
exclude: []                   # of either
types: ["*"]                  # globs over the classes of modules
# depth: 3                    # how many names deep a module may lie
record: training              # training | gradients | all: which forwards count
accumulation_steps: 1         # backward passes that one optimizer step sums on purpose
expected_frozen: []           # sites that are not meant to learn
histograms: {every: 100, subjects: [activation, weight, gradient], bins: 64}
queue: {capacity: 64, when_full: block}
# dump: {sites: ["head"], subjects: [activation, gradient], when: {windows: [[100, 110]]}}   # whole tensors
nan_trace: false              # name the first operation, and its line, that makes NaN or infinity
# budget: 3%                  # what all this may cost; the schedule is thinned to stay below
"""


@application.command("init")
def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Made; never overwritten.")] = "monitor.yaml",
) -> int:
    """Write a configuration with every setting and its default."""
    try:
        with Path(file).open("x", encoding="utf-8") as opened:
            opened.write(_TEMPLATE)
    except FileExistsError:
        raise WrongUse(f"{file} is there already; name another file, or remove it first") from None
    print(file)
    return 0


@application.command("check")
def check(file: _File, as_document: JsonOption = False) -> int:
    """Say whether a configuration is right; exit code 2 and one line if not."""
    from ..probe import load_config

    config = load_config(file)
    if as_document:
        print_json({"file": file, "config": config.model_dump(mode="json", exclude_unset=True)})
    else:
        print(f"{file} is right")
    return 0


@application.command("explain")
def explain(file: _File, as_document: JsonOption = False) -> int:
    """Tell in words what a configuration records, and when."""
    from ..probe import COLLECTORS, load_config

    config = load_config(file)
    rows = {name: _words(config.schedule(name)) for name in sorted(COLLECTORS)}
    if as_document:
        print_json({"file": file, "subjects": rows, "where": _where(config)})
        return 0
    listing = table("", "subject", "when")
    for name, words in rows.items():
        add_row(listing, name, words)
    console().print(listing)
    for line in _where(config):
        print(line)
    return 0


def _words(schedule: "Schedule") -> str:
    if not schedule.is_ever_due:
        return "never"
    parts = []
    if schedule.every:
        parts.append("every step" if schedule.every == 1 else f"every {schedule.every} steps")
    if schedule.first and schedule.every != 1:
        parts.append(f"the first {schedule.first}")
    if schedule.every != 1:
        parts += [f"each from {first} to {last}" for first, last in schedule.windows]
    if schedule.per_decade and schedule.every != 1:
        parts.append(f"{schedule.per_decade} times a decade")
    if schedule.start:
        parts.append(f"from step {schedule.start} on")
    if schedule.stop is not None:
        parts.append(f"up to step {schedule.stop - 1}")
    return ", ".join(parts)


def _where(config: "Config") -> list[str]:
    lines = [f"modules: {', '.join(config.modules)}", f"parameters: {', '.join(config.parameters)}"]
    if config.types != ("*",):
        lines.append(f"only modules of type {', '.join(config.types)}")
    if config.depth is not None:
        lines.append(f"only modules at most {config.depth} names deep")
    if config.exclude:
        lines.append(f"without {', '.join(config.exclude)}")
    if config.budget is not None:
        lines.append(f"thinned where monitoring costs more than {100.0 * config.budget:g} %")
    return lines
