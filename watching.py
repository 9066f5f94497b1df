"""Where probe, storage and insight meet: a monitor whose records are diagnosed on their way into a store."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .insight import LiveDiagnosis
from .probe import Config, Monitor, begin, load_config
from .probe import run_script as _run_script
from .probe import watch as _watch
from .probe.ranks import place as rank_here
from .storage import Json, Listener, Store, open_store


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

    Raises:
        ConfigError, SiteNotFound, NotWatchable: What is wrong with the arguments, and what would be right.
        StoreError: The store cannot take a new run.
    """
    place = open_store(store) if isinstance(store, str | Path) else store
    own = rank_here().rank if rank is None else rank
    return _watch(
        model,
        optimizer,
        store=place,
        config=config,
        run=run,
        tags=tags,
        listeners=(LiveDiagnosis(rank=own), *listeners),
        rank=rank,
        run_id=run_id,
    )


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    config: str | Path | None = None,
    store: str | Path = "runs/",
    name: str | None = None,
) -> int:
    """The exit code of a training script that was run unchanged, its training recorded and diagnosed.

    Raises:
        ScriptNotFound, ConfigError, StoreError: Before the script is started.
        SiteNotFound, StoreError: At the model's first call, where the script is stopped.
    """
    settings = load_config(config)
    place = open_store(store)
    place.runs(limit=1)
    title = name or script.stem
    return _run_script(
        script, arguments, lambda adapter: begin(adapter, place, settings, name=title, listeners=(LiveDiagnosis(),))
    )
