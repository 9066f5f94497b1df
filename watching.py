"""Join probe, storage and insight: a monitor whose records are diagnosed on their way into a store."""

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
    """Record the training of the model, diagnose it while it runs, and return the monitor.

    Args:
        model: A torch Module, a MindSpore Cell or an engine Cell.
        optimizer: The optimizer that steps its parameters, or several; None finds it at the first step (torch only).
        store: A folder, `postgresql+psycopg://...`, `memory:`, or a store that is open already.
        config: A YAML or JSON file, or a mapping; None records every quantity at every step.
        run: The run's name; by default the model's class.
        tags: Values that tell this run from others, e.g. `{"lr": 3e-4}`.
        listeners: Receive every record, in addition to the diagnosis.
        rank: Rank of this process, where several train one model. Detected by default, as is the common run.
        run_id: The run to join, for processes that cannot agree on one by themselves.
        resume: The run of the store that this one continues; the diagnosis reports state that was not restored.

    Raises:
        ConfigError, SiteNotFound, NotWatchable: An argument is wrong; the message says what would be right.
        StoreError: The store cannot take a new run.
    """
    settings = load_config(config)
    if not listeners:  # listeners may find causes of their own
        check_causes(settings)
    own = rank_here().rank if rank is None else rank
    diagnosis = _diagnosis(settings, own)
    opened = open_store(store) if isinstance(store, str | Path) else store
    return _watch(
        model,
        optimizer,
        store=opened,
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
    """Run a training script unchanged, record and diagnose its training, and return the exit code.

    Args:
        script: A Python file, or a module.
        arguments: The arguments that the script finds in `sys.argv[1:]`.
        config: A YAML or JSON file. Edits of it take effect from the model's first call on.
        name: The run's name; by default the script's.

    Raises:
        ScriptNotFound, ConfigError, StoreError: Before the script is started.
        SiteNotFound, StoreError: At the model's first call, which stops the script.
    """
    settings = load_config(config)
    check_causes(settings)
    diagnosis = _diagnosis(settings, 0)
    opened = open_store(store)
    opened.runs(limit=1)  # a store that cannot be read stops the command before the script starts
    title = name or (script.stem if isinstance(script, Path) else script.path.stem)
    file = None if config is None else Path(config).absolute()  # the script may change its working directory
    return _run_script(
        script,
        arguments,
        lambda adapter: begin(adapter, opened, settings, name=title, listeners=(diagnosis,), source=file),
    )


def check_causes(config: Config) -> None:
    """Check that `on_finding` names only causes that the diagnosis can find.

    Raises:
        ConfigError: `on_finding` names causes that no rule has.
    """
    mistakes = unknown_causes(config)
    if mistakes:
        raise ConfigError("; ".join(mistakes), mistakes)


def unknown_causes(config: Config) -> tuple[str, ...]:
    """Return an error message for each cause that `on_finding` names and no rule has."""
    known = sorted({name for rule in RULES.values() for name in (rule.name, rule.cause)})
    patterns = dict.fromkeys(glob for reaction in config.on_finding for glob in reaction.causes)
    return tuple(
        f"on_finding: no rule finds a cause {glob!r}{nearest(glob, known)}; docs/catalogue/rules.md has all"
        for glob in patterns
        if not glob.startswith("watchpoint") and not any(fnmatchcase(name, glob) for name in known)
    )


def _diagnosis(config: Config, rank: int) -> Listener:
    """Return the listener that diagnoses records, and posts findings to the webhook if there is one."""
    live = LiveDiagnosis(rank=rank)
    hook = config.webhook
    return live if hook is None else Webhook(live, hook.url, severity=hook.severity, timeout_s=hook.timeout_s)
