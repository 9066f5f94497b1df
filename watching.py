"""Where probe, storage and insight meet: a monitor whose records are diagnosed on their way into a store."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .insight import RULES, LiveDiagnosis
from .insight.webhook import Webhook
from .probe import Config, ConfigError, Monitor, begin, load_config
from .probe import run_script as _run_script
from .probe import watch as _watch
from .probe.process_ranks import process_rank as rank_here
from .probe.script_runner import TrainingScript
from .storage import Json, Listener, Store, nearest, open_store


def watch(
    model: object,
    optimizer: object | Sequence[object] | None = None,
    *,
    store: Store | str | Path = "runs/",
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | None = None,
    tags: Mapping[str, Json] | None = None,
    listeners: Sequence[Listener] = (),
    rank: int | None = None,
    run_id: str | None = None,
    resume: str | None = None,
) -> Monitor:
    """A monitor that records the training of the model and diagnoses it while it runs.

    Args:
        model: A torch Module, a MindSpore Cell or an engine Cell.
        optimizer: The one that steps its parameters, or several; None takes whichever turns out to (torch).
        store: A folder, `postgresql+psycopg://...`, `memory:`, or a store that is open already.
        config: A YAML or JSON file, a mapping, or nothing: every quantity at every step.
        run: The run's name; by default the model's class.
        tags: What tells this run from others, e.g. `{"lr": 3e-4}`.
        listeners: See every record besides the diagnosis.
        rank: Of this process, where several train one model; found out by itself, as is the run that all ranks record.
        run_id: The run to join, for processes that cannot agree on one.
        resume: The run of the store that this one goes on from; the diagnosis says what it has not kept.

    Raises:
        ConfigError, SiteNotFound, NotWatchable: What is wrong with the arguments, and what would be right.
        StoreError: The store cannot take a new run.
    """
    settings = load_config(config)
    if not listeners:  # which may find things of their own
        check_causes(settings)
    own = rank_here().rank if rank is None else rank
    diagnosis = _diagnosis(settings, own)
    place = open_store(store) if isinstance(store, str | Path) else store
    return _watch(
        model,
        optimizer,
        store=place,
        config=settings,
        source=Path(config) if isinstance(config, str | Path) else None,
        run=run,
        tags=tags,
        listeners=(diagnosis, *listeners),
        rank=rank,
        run_id=run_id,
        resume=resume,
    )


def run_script(
    script: Path | TrainingScript,
    arguments: Sequence[str],
    *,
    config: str | Path | None = None,
    store: str | Path = "runs/",
    name: str | None = None,
) -> int:
    """The exit code of a training script that was run unchanged, its training recorded and diagnosed.

    Args:
        script: A Python file, or a module.
        arguments: What it finds behind its own name in `sys.argv`.
        config: A YAML or JSON file, whose edits are followed from the model's first call on.
        name: The run's; by default the script's.

    Raises:
        ScriptNotFound, ConfigError, StoreError: Before the script is started.
        SiteNotFound, StoreError: At the model's first call, where the script is stopped.
    """
    settings = load_config(config)
    check_causes(settings)
    diagnosis = _diagnosis(settings, 0)
    place = open_store(store)
    place.runs(limit=1)
    title = name or (script.stem if isinstance(script, Path) else script.path.stem)
    file = None if config is None else Path(config).absolute()  # the script may go into another folder
    return _run_script(
        script,
        arguments,
        lambda adapter: begin(adapter, place, settings, name=title, listeners=(diagnosis,), source=file),
    )


def check_causes(config: Config) -> None:
    """Nothing; what `on_finding` asks for is about something that the diagnosis can find.

    Raises:
        ConfigError: It names causes that no rule has.
    """
    mistakes = unknown_causes(config)
    if mistakes:
        raise ConfigError("; ".join(mistakes), mistakes)


def unknown_causes(config: Config) -> tuple[str, ...]:
    """A sentence for each cause that `on_finding` names and no rule has."""
    known = sorted({word for one in RULES.values() for word in (one.name, one.cause)})
    asked = dict.fromkeys(glob for reaction in config.on_finding for glob in reaction.causes)
    return tuple(
        f"on_finding: no rule finds a cause {glob!r}{nearest(glob, known)}; docs/catalogue/rules.md has all"
        for glob in asked
        if not glob.startswith("watchpoint") and not any(fnmatchcase(word, glob) for word in known)
    )


def _diagnosis(config: Config, rank: int) -> Listener:
    """The rules, and what passes on what they find."""
    live = LiveDiagnosis(rank=rank)
    hook = config.webhook
    return live if hook is None else Webhook(live, hook.url, severity=hook.severity, timeout_s=hook.timeout_s)
