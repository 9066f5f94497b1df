"""From a model and a store to a monitor: everything that can be wrong is raised before the run begins."""

import logging
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..storage import Json, Listener, MemoryStore, RunWriter, Store, StreamStore
from ..storage.end_note import note_path
from ..storage.last_words import words_of
from ..storage.ranks.topology import place_event
from ..storage.stored_tensors import blobs_of
from . import collectors  # noqa: F401  fills the table of collectors
from .actions.attachment import DATABASE_LOOK_S, LOOK_S
from .actions.reactions import checkpoint_folder
from .adapters import Adapter, adapter_for
from .configuration.cadence import Cadence
from .configuration.config import Config
from .configuration.config_loading import load_config
from .configuration.late_reactions import late_reactions
from .configuration.reaction_settings import saving
from .configuration.sections import Dump
from .end_note import EndNote
from .errors import ConfigError, NotWatchable
from .facts import environment
from .heartbeat import Judge
from .lifecycle import is_watched
from .monitor import Monitor
from .process_ranks import agree_on_run, process_rank
from .reconfiguration import ChangeWatcher
from .resume import resume_points

__all__ = ["begin", "recorded_config", "rehearsal", "watch", "watched_from_outside"]

_log = logging.getLogger(__name__)


def watch(
    model: object,
    optimizer: object | Sequence[object] | None = None,
    *,
    store: Store,
    config: Config | Mapping[str, Any] | str | Path | None = None,
    run: str | None = None,
    tags: Mapping[str, Json] | None = None,
    listeners: Sequence[Listener] = (),
    rank: int | None = None,
    run_id: str | None = None,
    source: Path | None = None,
    resume: str | None = None,
    judge: Callable[[str, str], Judge] | None = None,
) -> Monitor:
    """Record the training of the model into a new run of the store, and return its monitor.

    Args:
        model: A torch Module, a MindSpore Cell or an engine Cell.
        optimizer: The one that steps its parameters, or several; None takes whichever turns out to (torch).
        config: What to record, as `load_config` takes it.
        run: Its name; by default the model's class.
        listeners: See every record on its way into the store.
        rank: Of this process, where several train one model; found out by itself, as is the run that all ranks record.
        run_id: The run to join, for processes that cannot agree on one.
        source: The file that a finished configuration was loaded from; changes of it are followed.
        resume: The run of the store that this one goes on from: an id, a unique prefix, a name or `latest`. What it
            should have kept is compared at the first step.
        judge: Makes, for the URL of the store and the id of the run, what judges whether its ranks hang.

    Raises:
        RunNotFound: There is no such run to resume.
        ConfigError, SiteNotFound: The configuration is wrong, or does not fit the model; store, run or tags are none.
        NotWatchable: The model or the optimizer is of no known framework, they do not belong together, or the model is
            watched already.
        StoreError: The store cannot take a new run.
    """
    _check(store, run, tags)
    settings = load_config(config)
    adapter = adapter_for(model, _several(optimizer))
    name = run or type(model).__name__
    if is_rehearsal():
        return stand_in(adapter, name)
    refuse_own_watch(model)
    source = Path(config) if isinstance(config, str | Path) else source
    if rank is None:
        here = process_rank()
        rank = here.rank
        run_id = agree_on_run(here, name, time.time()) if run_id is None else run_id
    return begin(
        adapter,
        store,
        settings,
        name=name,
        tags=tags,
        listeners=listeners,
        rank=rank,
        run_id=run_id,
        source=source,
        resume=resume,
        judge=judge,
    )


def begin(
    adapter: Adapter,
    store: Store,
    config: Config,
    *,
    name: str,
    tags: Mapping[str, Json] | None = None,
    listeners: Sequence[Listener] = (),
    rank: int = 0,
    run_id: str | None = None,
    source: Path | None = None,
    resume: str | None = None,
    judge: Callable[[str, str], Judge] | None = None,
) -> Monitor:
    """Begin a run over an adapter; the hooks are attached first, so that a wrong configuration begins none.

    The source is followed where it lies now, also when the training goes into another folder.
    """
    source = None if source is None else source.absolute()
    if is_watched(adapter.model):
        raise NotWatchable(
            f"{type(adapter.model).__name__} is watched already; close() its monitor first, or use that one: "
            f"two monitors of one model would each measure the other"
        )
    monitor, writer = Monitor(adapter, config), None
    try:
        dump = _dump_of(config)
        if dump is not None:
            blobs_of(store.url, "", dump.folder)  # which says it where the store cannot hold tensors
        for one in saving(config.on_finding):
            checkpoint_folder(store.url, "", one.folder)  # which says it where there is no place for checkpoints
        recorded = recorded_config(config)
        monitor.resume(resume_points(store, name, resume, rank=rank))
        writer = store.begin_run(
            name,
            framework=adapter.framework,
            rank=rank,
            run_id=run_id,
            config=recorded,
            tags=dict(tags or {}),
            host=environment(),
        )
        _record_place(writer, rank, getattr(adapter, "device", ""))
        if dump is not None:
            monitor.dump_to(blobs_of(store.url, writer.run.id, dump.folder), dump)
        control_channel = store.control_channel(writer.run.id)
        look_s = DATABASE_LOOK_S if "://" in store.url else LOOK_S
        monitor.stand_by(store.url, control_channel, writer.run.id, rank=rank, look_s=look_s)
        monitor.control(ChangeWatcher(config, source, control_channel, look_s=look_s), writer.run.id)
        monitor.write_to(writer, listeners)
        if (path := note_path(store.url, writer.run.id, rank)) is not None:
            monitor.leave_note(EndNote(path))
        _beat(monitor, adapter, store, writer.run.id, rank, judge)
        for words in () if rank else late_reactions(config):
            _log.warning("%s", words)
    except BaseException:
        monitor.abandon()
        if writer is not None and not monitor.has_run:
            with suppress(Exception):  # what has ended the watch is raised
                writer.close("finished", "")
        raise
    return monitor


def recorded_config(config: Config) -> dict[str, Json]:
    """Return the settings that a run records: those that were given, without what is often a secret."""
    return config.model_dump(mode="json", exclude_unset=True, exclude={"webhook": {"url"}})


def _beat(
    monitor: Monitor,
    adapter: Adapter,
    store: Store,
    run: str,
    rank: int,
    judge: Callable[[str, str], Judge] | None,
) -> None:
    """Let the rank say last words, where several train together."""
    communication = getattr(adapter, "communication", None)
    if communication is None:
        return
    if isinstance(store, StreamStore):  # words are judged where they are collected
        monitor.beat(store.last_words(run, rank), communication, None)
        return
    last_words = words_of(store.url, store.control_channel(run), run, range(communication.size))
    monitor.beat(last_words, communication, None if judge is None else judge(store.url, run))


def _record_place(writer: RunWriter, rank: int, device: str) -> None:
    """Record where this rank is among several, and the device that its model is on."""
    here = process_rank()
    if here.size > 1 and here.rank == rank:
        writer.write_events([place_event(rank, here.size, here.local_rank, dict(here.groups), device)])


def _dump_of(config: Config) -> Dump | None:
    """Return what is dumped; at no step, where only the flight recorder may have tensors to store."""
    if config.dump is None and config.flight_recorder is not None and config.flight_recorder.tensors:
        return Dump(when=Cadence(every=0))
    return config.dump


def _check(store: object, run: object, tags: object) -> None:
    """Raise ConfigError for an invalid store, name or tags."""
    if not hasattr(store, "begin_run"):
        expected, got = "store must be a folder, `postgresql+psycopg://...`, `memory:` or an open store", store
    elif not isinstance(run, str | None):
        expected, got = "run must be a name", run
    elif not isinstance(tags, Mapping | None) or not all(isinstance(key, str) for key in tags or ()):
        expected, got = 'tags must map names to values, as {"lr": 3e-4}', tags
    else:
        return
    raise ConfigError(f"{expected}, got {type(got).__name__} {reprlib.repr(got)}")


def _several(optimizer: object | Sequence[object] | None) -> tuple[object, ...]:
    if optimizer is None:
        return ()
    several = tuple(optimizer) if isinstance(optimizer, list | tuple) else (optimizer,)
    if not several:
        raise NotWatchable("optimizer is an empty sequence; pass an optimizer, several, or leave it out")
    return tuple({id(one): one for one in several}.values())  # one that is named twice steps once


_REFUSE: ContextVar[Callable[[object], None] | None] = ContextVar("watched_from_outside", default=None)


@contextmanager
def watched_from_outside(refuse: Callable[[object], None]) -> Iterator[None]:
    """Make every `watch` inside call `refuse` first, which raises where it may not watch that model."""
    token = _REFUSE.set(refuse)
    try:
        yield
    finally:
        _REFUSE.reset(token)


def refuse_own_watch(model: object) -> None:
    """Raise where the script is watched from outside and watches this model itself."""
    refuse = _REFUSE.get()
    if refuse is not None:
        refuse(model)


_REHEARSAL: ContextVar[str] = ContextVar("rehearsal", default="")


@contextmanager
def rehearsal(*, is_hasty: bool = True) -> Iterator[None]:
    """Make `watch` return monitors that watch nothing inside the block.

    Args:
        is_hasty: Whether the first network that is called with gradients is taken, whatever else the script trains.
    """
    token = _REHEARSAL.set("hasty" if is_hasty else "thorough")
    try:
        yield
    finally:
        _REHEARSAL.reset(token)


def is_rehearsal() -> bool:
    """Return whether the script is only inspected."""
    return _REHEARSAL.get() != ""


def is_hasty() -> bool:
    """Return whether the first network that is called is all that is looked for."""
    return _REHEARSAL.get() == "hasty"


def stand_in(adapter: Adapter, name: str) -> Monitor:
    """Return a closed monitor without a stored run, for a script that calls its methods."""
    monitor = Monitor(adapter, Config())
    monitor.write_to(MemoryStore().begin_run(name, framework=adapter.framework), ())
    monitor.retire()
    return monitor
