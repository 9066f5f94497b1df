"""`mindscope config` writes, checks and explains configurations; `mindscope set` changes that of a running training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .failures import WRONG_USE, WrongUse
from .output import add_row, console, print_json, remark, table
from .step_spans import in_words, paced_in_words
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

if TYPE_CHECKING:
    from ..probe import Config

__all__ = ["TEMPLATE"]

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
        raise WrongUse(f"{file} exists already; name another file, or remove it first") from None
    print(file)
    return 0


@application.command("check")
def check(file: _File, as_document: JsonOption = False) -> int:
    """Check a configuration; exit code 2 and a line for each mistake if it is wrong."""
    from ..probe.configuration.late_reactions import late_reactions

    config, mistakes = _examined(file, as_document=as_document)
    if mistakes:
        return _refused(file, mistakes, as_document=as_document)
    notes = late_reactions(config)
    if as_document:
        document = config.model_dump(mode="json", exclude_unset=True, exclude={"webhook": {"url"}})  # often a secret
        print_json({"file": file, "mistakes": mistakes, "notes": notes, "config": document})
        return 0
    print(f"{file} is right")
    for words in notes:
        remark(f"mindscope: note: {words}")
    return 0


@application.command("explain")
def explain(file: _File, as_document: JsonOption = False) -> int:
    """Explain what a configuration records, and when; exit code 2 and a line for each mistake if it is wrong."""
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
    """Return the configuration (the defaults if it is invalid) and every mistake in it.

    Raises:
        ConfigError: The file cannot be read, and no JSON document is wanted that would say so.
    """
    from ..probe import Config, ConfigError
    from ..probe.configuration.config_loading import examine
    from ..watching import unknown_causes

    try:
        config, mistakes = examine(file)
    except ConfigError as error:
        if not as_document:
            raise
        return Config(), error.mistakes
    return (Config(), mistakes) if config is None else (config, (*mistakes, *unknown_causes(config)))


def _refused(file: str, mistakes: Sequence[str], *, as_document: bool) -> int:
    """Print every mistake on a line of its own and return the exit code."""
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
    """Return what is recorded in addition to the subjects, and what happens on findings."""
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
        lines.append(f"after a finding: everything for {config.around.after} steps")
    if config.nan_trace:
        lines.append("the first operation that makes NaN or infinity, with its line")
    lines += [
        f"watched: {watchpoint.when}, {watchpoint.severity}{', and the training waits' * watchpoint.pause}"
        for watchpoint in config.watchpoints
    ]
    lines += [
        f"{reaction.do}: on {', '.join(reaction.causes)}, {reaction.severity} or worse"
        f"{f', {reaction.call}' if reaction.call else ''}"
        for reaction in config.on_finding
    ]
    if config.webhook is not None:
        lines.append(f"posted to the webhook: findings, {config.webhook.severity} or worse")
    if config.budget is not None:
        lines.append(
            f"thinned if the monitor costs more than {100.0 * config.budget:g} %: tensors first, then whole steps"
        )
    return lines


def set_(
    run: RunArgument,
    settings: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="As in the configuration: every=10, subjects.weight=5.")
    ],
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Change what a running training records; values are YAML, dots lead into a key.

    These can change: every, subjects, histograms, modules, types, depth, exclude, watchpoints. Settings add up;
    key={} removes all that was set for that key and below it.
    """
    fields = fields_of(settings)
    from ..probe.reconfiguration import request_change

    with open_existing(store) as opened:
        found = opened.find_run(run)
        if found.state != "running":
            raise WrongUse(f"run {found.name!r} is {found.state_words}; only a running one can be changed")
        request_change(opened.control_channel(found.id), fields)
    if as_document:
        print_json({"run": found.id, "asked": fields})
    else:
        print(
            f"{found.id}: requested {', '.join(settings)}; mindscope events {found.id} --kind 'configuration_*' "
            f"shows the step from which it holds, or why it was refused"
        )
    return 0


def fields_of(settings: Sequence[str]) -> dict[str, Any]:  # Any: whatever the YAML says
    """Return the keys and values of `key=value` settings; dots lead into a key.

    Raises:
        WrongUse: A setting has no `=`, or its value is no YAML.
    """
    import yaml

    fields: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise WrongUse(f"a setting reads key=value, got {setting!r}")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise WrongUse(
                f"{setting!r} has no YAML value: {str(error).splitlines()[0]}; quote a value that begins with *, as in "
                f"modules=['*.head']"
            ) from error
        *outer, last = key.split(".")
        inside = fields
        for name in outer:
            inside = inside.setdefault(name, {})
        inside[last] = value
    return fields


TEMPLATE: Final = """\
# What mindscope records of a training. These are the defaults; what is commented out is off, or an example.

# When. A number of `subjects` is a cadence, false is off; docs/catalogue/collectors.md lists them.
every: 1                      # cadence of all other subjects; 0: only those that `subjects` names
# subjects:
#   activation: {every: 10, first: 100, windows: [[5000, 5100]], around: 50}
#   gradient: {per_decade: 20, start: 1000, stop: 90000}
#   optimizer: false
# around: {after: 50, severity: warning}   # everything at each of the 50 steps after a finding
# budget: 3%                  # most that the monitor may cost; tensors are thinned first, then whole steps
# full_detail: {steps: 200, seconds: 30}   # the start, up to one of both, that a budget leaves alone

# Where. `mindscope sites SCRIPT` prints the names.
modules: ["*"]                # globs over the sites of modules
parameters: ["*"]             # and of parameters
exclude: []                   # of either
types: ["*"]                  # globs over the classes of modules
# depth: 3                    # how many names deep a module may lie
record: training              # training | gradients | all: which forwards count

# What.
statistics: []                # of tensors, beside the ten: sum, abs_max, kurtosis, checksum, quantiles
# Of histograms `every: 0` is none, and `scale: log` makes each bin an octave.
histograms: {every: 100, subjects: [activation, weight, gradient], bins: 64, scale: linear}
nan_trace: false              # name the first operation, and its line, that makes NaN or infinity
causality: false              # true | report: check once that no output of a sequence model sees later input
checks: true                  # try at two steps, on copies of the model, what must hold
# dump:                       # whole tensors, in files beside the run
#   sites: ["head"]
#   subjects: [input, activation, activation_grad, weight, gradient]
#   when: {windows: [[100, 110]]}
#   limit_gb: 10.0            # on the disk
#   memory_gb: 0.25           # of copies that wait for the disk
#   folder: tensors/          # needed where the store is a database
# flight_recorder:            # the last steps in full, in memory, stored if something is wrong
#   steps: 20
#   tensors: ["head"]         # sites whose whole tensors are kept too
#   subjects: [activation, gradient]
#   memory: 512MB
#   severity: warning         # least severity of a finding that stores it
# media: {steps: 100, per_step: 64, largest: 16MB, total: 1GB}   # of `log_image` and `log_audio`; later steps thin out
# routers:                    # mixture-of-experts routers that are not recognised by themselves
#   - {sites: ["*.gate"], top_k: 2, holds: logits, output: 0, experts: 8, capacity_factor: 1.25}
#   - {sites: ["*.switch"], attribute: last_choice, holds: experts}

# What the diagnosis should know.
accumulation_steps: 1         # backward passes that one optimizer step sums on purpose
# kind: policy                # of the training; without it, the facts of the first steps tell
expected_frozen: []           # globs of sites that are frozen on purpose

# What happens when something is found. docs/under_way.md
# watchpoints:                # conditions of your own, reported like findings
#   - gradient/l2_norm @ decoder.* > 10 for 3 steps
#   - {when: "nan @ *", name: any NaN, severity: error, pause: true}
# on_finding:                 # warn | stop | skip_step | checkpoint | callback | pause
#   - {do: checkpoint, severity: error, keep: 3, folder: checkpoints/}
#   - {do: callback, call: "alerts:page_me", causes: [loss_spike, "watchpoint/*"]}
# webhook: {url: "https://example.org/hook", severity: warning, timeout_s: 5, allow_private: false}
#                             # gets findings as small JSON bodies; private: addresses of this machine and its network

queue: {capacity: 64, when_full: block}   # records that wait for the disk; drop: lose records, never wait
# retention:                  # what the store keeps
#   full: 100000              # records of a tensor in full resolution, the newest
#   fine: 1000000             # and at least in buckets of 16
#   keep: 30d                 # runs that ended longer ago are removed as this one begins, but for those tagged `keep`
#   max_size: 10GB            # then the oldest, until the rest is no larger
"""
