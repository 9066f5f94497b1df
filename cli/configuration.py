"""`mindscope config` writes, checks and explains monitoring configurations."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .failures import WRONG_USE, WrongUse
from .options import JsonOption
from .output import add_row, console, print_json, remark, table
from .template import TEMPLATE

if TYPE_CHECKING:
    from ..probe import Config, Schedule

application = typer.Typer(help="Write, check and explain a monitoring configuration.", no_args_is_help=True)

_File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; a configuration of msprobe will do.")]


@application.command("init")
def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Made; never overwritten.")] = "monitor.yaml",
) -> int:
    """Write a configuration with every setting and its default."""
    try:
        with Path(file).open("x", encoding="utf-8") as opened:
            opened.write(TEMPLATE)
    except FileExistsError:
        raise WrongUse(f"{file} is there already; name another file, or remove it first") from None
    print(file)
    return 0


@application.command("check")
def check(file: _File, as_document: JsonOption = False) -> int:
    """Say whether a configuration is right; exit code 2 and a line for each mistake if not."""
    from ..probe.configuration.load import examine
    from ..watching import unknown_causes

    config, mistakes = examine(file)
    mistakes += unknown_causes(config) if config is not None else ()
    if as_document:
        told = {"config": config.model_dump(mode="json", exclude_unset=True)} if config is not None else {}
        print_json({"file": file, "mistakes": mistakes, **({} if mistakes else told)})
    elif mistakes:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        remark("\n  ".join([f"mindscope: {file} has {count}:", *mistakes]))
    else:
        print(f"{file} is right")
    return WRONG_USE if mistakes else 0


@application.command("explain")
def explain(file: _File, as_document: JsonOption = False) -> int:
    """Tell in words what a configuration records, and when."""
    from ..probe import COLLECTORS, load_config

    config = load_config(file)
    rows = {name: _paced(config.schedule(name), COLLECTORS[name].pace) for name in sorted(COLLECTORS)}
    if as_document:
        print_json({"file": file, "subjects": rows, "where": _where(config), "else": _what_else(config)})
        return 0
    listing = table("", "subject", "when")
    for name, words in rows.items():
        add_row(listing, name, words)
    console().print(listing)
    for line in (*_where(config), *_what_else(config)):
        print(line)
    return 0


def _paced(schedule: "Schedule", pace: int) -> str:
    """When something tells anything that does so at one of `pace` steps at which it is due."""
    from ..probe import NEVER

    if pace == 1 or not schedule.is_ever_due:
        return _words(schedule)
    if replace(schedule, every=0, around=0) == NEVER:
        return _words(replace(schedule, every=schedule.every * pace, around=0))
    return f"one in {pace} of: {_words(schedule)}"


def _words(schedule: "Schedule") -> str:
    if not schedule.is_ever_due:
        return "never"
    parts = []
    if schedule.every:
        parts.append("every step" if schedule.every == 1 else f"every {schedule.every} steps")
    if schedule.first and schedule.every != 1:
        parts.append(f"the first {schedule.first}")
    if schedule.every != 1:
        parts += [
            f"step {first}" if first == last else f"each from {first} to {last}" for first, last in schedule.windows
        ]
    if schedule.per_decade and schedule.every != 1:
        parts.append(f"{schedule.per_decade} times a decade")
    if schedule.start:
        parts.append(f"from step {schedule.start} on")
    if schedule.stop is not None:
        parts.append(f"up to step {schedule.stop - 1}")
    if schedule.around and schedule.every != 1:
        parts.append(f"each of {schedule.around} behind a finding")
    return ", ".join(parts)


def _where(config: "Config") -> list[str]:
    lines = [f"modules: {', '.join(config.modules)}", f"parameters: {', '.join(config.parameters)}"]
    if config.types != ("*",):
        lines.append(f"only modules of type {', '.join(config.types)}")
    if config.depth is not None:
        lines.append(f"only modules at most {config.depth} names deep")
    if config.exclude:
        lines.append(f"without {', '.join(config.exclude)}")
    return lines


def _what_else(config: "Config") -> list[str]:
    """What is recorded beside the subjects, and what happens on findings."""
    lines = [f"every tensor's {name} too" for name in config.statistics]
    if config.dump is not None:
        lines.append(
            f"whole tensors of {', '.join(config.dump.sites)}: {_words(config.dump.when.schedule())}, "
            f"{', '.join(config.dump.subjects)}, up to {config.dump.limit_gb:g} GB"
        )
    if config.flight_recorder is not None:
        lines.append(
            f"in memory, until something is wrong: everything of the last {config.flight_recorder.steps} steps"
        )
    if config.around.after:
        lines.append(f"behind a finding: everything for {config.around.after} steps")
    if config.nan_trace:
        lines.append("the first operation that makes NaN or infinity, with its line")
    lines += [
        f"watched: {one.when}, {one.severity}{', and the training waits' * one.pause}" for one in config.watchpoints
    ]
    lines += [
        f"{one.do}: of {', '.join(one.causes)}, {one.severity} or worse{f', {one.call}' if one.call else ''}"
        for one in config.on_finding
    ]
    if config.webhook is not None:
        lines.append(f"told over the web: findings, {config.webhook.severity} or worse")
    if config.budget is not None:
        lines.append(f"thinned where monitoring costs more than {100.0 * config.budget:g} %")
    return lines
