"""`mindscope config` writes, checks and explains monitoring configurations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cadences import in_words, paced_in_words
from .failures import WRONG_USE, WrongUse
from .options import JsonOption
from .output import add_row, console, print_json, remark, table
from .template import TEMPLATE

if TYPE_CHECKING:
    from ..probe import Config

application = typer.Typer(help="Write, check and explain a monitoring configuration.", no_args_is_help=True)

_File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; a configuration of msprobe will do.")]


@application.command("init")
def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Made, never overwritten; - prints it.")] = "monitor.yaml",
) -> int:
    """Write a configuration with every setting and its default."""
    if file == "-":
        print(TEMPLATE, end="")
        return 0
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
    from ..probe.configuration.lateness import late_reactions

    config, mistakes = _examined(file, as_document=as_document)
    if mistakes:
        return _refused(file, mistakes, as_document=as_document)
    notes = late_reactions(config)
    if as_document:
        told = config.model_dump(mode="json", exclude_unset=True)
        print_json({"file": file, "mistakes": mistakes, "notes": notes, "config": told})
        return 0
    print(f"{file} is right")
    for words in notes:
        remark(f"mindscope: note: {words}")
    return 0


@application.command("explain")
def explain(file: _File, as_document: JsonOption = False) -> int:
    """Tell in words what a configuration records, and when; exit code 2 and a line for each mistake if it is wrong."""
    from ..probe import COLLECTORS

    config, mistakes = _examined(file, as_document=as_document)
    if mistakes:
        return _refused(file, mistakes, as_document=as_document)
    rows = {name: paced_in_words(config.schedule(name), COLLECTORS[name].pace) for name in sorted(COLLECTORS)}
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


def _examined(file: str, *, as_document: bool) -> tuple["Config", tuple[str, ...]]:
    """The configuration, one of defaults where it is none, and every mistake in it.

    Raises:
        ConfigError: The file cannot be read as one at all, and no document is wanted that would say so.
    """
    from ..probe import Config, ConfigError
    from ..probe.configuration.load import examine
    from ..watching import unknown_causes

    try:
        config, mistakes = examine(file)
    except ConfigError as error:
        if not as_document:
            raise
        return Config(), error.mistakes
    return (Config(), mistakes) if config is None else (config, (*mistakes, *unknown_causes(config)))


def _refused(file: str, mistakes: Sequence[str], *, as_document: bool) -> int:
    """The exit code, once every mistake is told on a line of its own."""
    if as_document:
        print_json({"file": file, "mistakes": mistakes})
    else:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        remark("\n  ".join([f"mindscope: {file} has {count}:", *mistakes]))
    return WRONG_USE


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
            f"whole tensors ({', '.join(config.dump.subjects)}) of {', '.join(config.dump.sites)}, up to "
            f"{config.dump.limit_gb:g} GB: {in_words(config.dump.when.schedule())}"
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
        lines.append(
            f"thinned where recording tensors costs more than {100.0 * config.budget:g} %; scalars are recorded at "
            "every due step, which is not counted (where steps take milliseconds, `every: 32` costs less)"
        )
    return lines
