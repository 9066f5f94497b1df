"""The monitor: attached to a model, it records until it is closed; one lifecycle for every framework."""

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..storage import Finding, Json, Listener, QueueWriter, Run, RunWriter, StepRecord, Store
from ..storage.blobs import Blobs, blobs_of
from . import collectors  # noqa: F401  fills the table of collectors
from .adapters import Adapter, adapter_for
from .config import Config, Dump, load_config
from .control import Control, differences, is_folder, request_file
from .dump import Dumper
from .errors import NotWatchable, ProbeError
from .facts import environment
from .hand_over import HandOver
from .lifecycle import is_watched, register, unregister
from .ranks import agree_on_run, place
from .recorder import Recorder
from .thrift import ThriftyRecorder

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
) -> "Monitor":
    """A monitor that records the training of the model into a new run of the store.

    Args:
        model: A torch Module, a MindSpore Cell or an engine Cell.
        optimizer: The one that steps its parameters, or several; None takes whichever turns out to (torch).
        config: What to record, as `load_config` takes it.
        run: Its name; by default the model's class.
        listeners: See every record on its way into the store.
        rank: Of this process, where several train one model; found out by itself, as is the run that all ranks record.
        run_id: The run to join, for processes that cannot agree on one.

    Raises:
        ConfigError, SiteNotFound: The configuration is wrong, or does not fit the model.
        NotWatchable: The model or the optimizer is of no known framework, they do not belong together, or the model is
            watched already.
        StoreError: The store cannot take a new run.
    """
    settings = load_config(config)
    adapter = adapter_for(model, _several(optimizer))
    name = run or type(model).__name__
    source = Path(config) if isinstance(config, str | Path) else None
    if rank is None:
        here = place()
        rank = here.rank
        run_id = agree_on_run(here, name, time.time()) if run_id is None else run_id
    return begin(
        adapter, store, settings, name=name, tags=tags, listeners=listeners, rank=rank, run_id=run_id, source=source
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
) -> "Monitor":
    """A monitor over an adapter; the run begins once its hooks are on, so that a wrong configuration begins none."""
    if is_watched(adapter.model):
        raise NotWatchable(
            f"{type(adapter.model).__name__} is watched already; close() its monitor first, or use that one: "
            f"two monitors of one model would each measure the other"
        )
    monitor = Monitor(adapter, config)
    try:
        if config.dump is not None:
            blobs_of(store.url, "", config.dump.folder)  # which says it where the store cannot hold tensors
        recorded = config.model_dump(mode="json", exclude_unset=True)
        writer = store.begin_run(
            name,
            framework=adapter.framework,
            rank=rank,
            run_id=run_id,
            config=recorded,
            tags=dict(tags or {}),
            host=environment(),
        )
        if config.dump is not None:
            monitor.dump_to(blobs_of(store.url, writer.run.id, config.dump.folder), config.dump)
        requests = request_file(store.url, writer.run.id) if is_folder(store.url) else None
        monitor.control(Control(config, source, requests))
        monitor.write_to(writer, listeners)
    except BaseException:
        adapter.detach()
        raise
    return monitor


class Monitor:
    """Watches until it is closed: by `close()`, as a context manager, or at exit; an error that ends it is recorded."""

    def __init__(self, adapter: Adapter, config: Config) -> None:
        self._adapter = adapter
        self._when_full = config.queue.when_full
        self._recorder = (Recorder if config.budget is None else ThriftyRecorder)(config, self._emit)
        self._queue: QueueWriter | None = None
        self._hand_over = HandOver(lambda record: self._writer.put(record), config.queue.capacity)
        self._control: Control | None = None
        self._told = -1
        self._is_closed = False
        try:
            adapter.attach(self._recorder)
        except BaseException:
            adapter.detach()
            raise

    def write_to(self, writer: RunWriter, listeners: Sequence[Listener]) -> None:
        """Nothing; records go to this run and are seen by the listeners, and the monitor is closed at exit."""
        self._queue = QueueWriter(writer, listeners, self._hand_over.behind, self._when_full)
        register(self)

    def dump_to(self, blobs: Blobs, config: Dump) -> None:
        """Nothing; the whole tensors that the configuration names go there."""
        self._recorder.dump_to(Dumper(config, blobs))

    @property
    def run(self) -> Run:
        """The run as it was begun."""
        return self._writer.run

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the listeners have found so far."""
        return self._writer.findings

    @property
    def step(self) -> int:
        """Number of the step in progress, from 0."""
        return self._recorder.step

    @property
    def fault(self) -> BaseException | None:
        """What keeps observations from being written at present; None when all is well."""
        return self._writer.fault

    def log(self, scalars: Mapping[str, float] | None = None, /, **more: float) -> None:
        """Nothing; the scalars belong to the step in progress, or to the one that has just ended.

        Args:
            scalars: For names that are no Python words: `{"loss/validation": 0.3}`.
            more: `loss=0.3`. One-element tensors are read; what is no number is left out with a warning.
        """
        values: dict[str, float] = {}
        for name, value in {**(scalars or {}), **more}.items():
            try:
                values[name] = float(value)
            except (TypeError, ValueError, RuntimeError):
                warnings.warn(
                    f"scalar {name!r} must be one number, got {type(value).__name__}; it is left out", stacklevel=2
                )
        if not self._is_closed:
            self._recorder.log(values)

    def step_done(self) -> None:
        """Nothing; ends the step in a loop that has no optimizer, or one that is not watched."""
        if not self._is_closed:
            self._adapter.step_done()

    def flush(self) -> None:
        """Nothing; what was recorded of finished steps is in the store, the last one included."""
        self._recorder.flush()
        self._hand_over.flush()
        self._writer.flush()

    def close(self, error: BaseException | None = None) -> None:
        """Nothing; the hooks are off, everything is written and the run is ended, as failed if there is an error.

        A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        unregister(self)
        self._adapter.detach()
        recorder = self._recorder
        if error is not None:
            recorder.event("exception", type=type(error).__name__, message=str(error))
        elif not recorder.has_recorded:
            _log.warning("run %s: nothing was recorded, no optimizer step of this model was seen", self.run.id)
        recorder.finish()
        self._hand_over.flush()
        state, said = ("failed", f"{type(error).__name__}: {error}") if error is not None else ("finished", "")
        self._writer.close(state, said)  # type: ignore[arg-type]

    def watches(self, model: object) -> bool:
        """Whether this very model is watched."""
        return self._adapter.model is model

    def disown(self) -> None:
        """Nothing; in a forked copy of the process the hooks go off and the run stays with the parent."""
        self._is_closed = True
        self._adapter.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    @property
    def _writer(self) -> QueueWriter:
        if self._queue is None:
            raise RuntimeError("the monitor has no run; make it with watch()")
        return self._queue

    def control(self, control: Control) -> None:
        """Nothing; what is recorded follows the changes that it sees."""
        self._control = control

    def _follow(self, control: Control) -> None:
        """Looks for a change of the configuration and makes it, or says why not."""
        recorder = self._recorder
        before = recorder.config
        try:
            changed = control.look()
            if changed is None:
                return
            recorder.follow(changed)
            self._adapter.reselect()
        except ProbeError as error:
            recorder.follow(before)
            _log.warning("run %s: the change is refused: %s", self.run.id, error)
            recorder.event("configuration_refused", error=str(error))
            return
        recorder.event("configuration_changed", **differences(before, changed))
        _log.info("run %s: the configuration has changed", self.run.id)

    def _emit(self, record: StepRecord) -> None:
        if self._control is not None:
            self._follow(self._control)
        if self._adapter.structure_version != self._told:
            self._told = self._adapter.structure_version
            self._hand_over.flush()
            self._writer.put_structure(self._adapter.structure())
        self._hand_over.add(record)


def _several(optimizer: object | Sequence[object] | None) -> tuple[object, ...]:
    if optimizer is None:
        return ()
    several = tuple(optimizer) if isinstance(optimizer, list | tuple) else (optimizer,)
    if not several:
        raise NotWatchable("optimizer is an empty sequence; pass an optimizer, several, or leave it out")
    return several
