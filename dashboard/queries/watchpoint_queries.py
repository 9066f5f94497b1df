"""The watchpoints of a run, their hits, and the state of running trainings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...insight.watchpoints import PREFIX, Watchpoint, watchpoints_of
from ...storage import Event, Finding, Json, Run, StoreUnavailable
from ...storage.control_channel import (
    COMMAND,
    SETTINGS,
    STATE,
    ControlChannel,
    TrainingState,
    combined_settings,
    requested_settings,
    state_of,
)
from .reader import Reader

#: The field of a run's settings that holds watchpoints.
FIELD: Final = "watchpoints"
#: Running trainings whose state is read, the newest; our choice: each costs a read of its control channel.
_ATTACHED: Final = 20


@dataclass(frozen=True, slots=True)
class WatchpointStatus:
    """One watchpoint of a run.

    Args:
        is_in_force: False while the training has not applied it yet.
        hits: Its findings, earliest first.
    """

    watchpoint: Watchpoint
    is_in_force: bool
    hits: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """The state of a training.

    Args:
        is_pending: Whether a command waits that the training has not obeyed yet.
    """

    state: TrainingState
    is_pending: bool


def requested_watchpoints(reader: Reader, run: Run) -> list[Json]:
    """Return the entries of all watchpoints requested for the run: those set meanwhile, else the initial ones.

    Raises:
        StoreUnavailable: The control channel cannot be read.
    """
    channel = reader.read(lambda store: store.control_channel(run.id))
    key = (run.id, SETTINGS, channel.stamp(SETTINGS))
    found = reader.kept(key, lambda _: combined_settings(requested_settings(channel)))
    return _list(found[FIELD] if FIELD in found else run.config.get(FIELD))


def watchpoint_statuses(reader: Reader, run: Run) -> tuple[WatchpointStatus, ...]:
    """Return the watchpoints requested for the run, in their order.

    Raises:
        InvalidName: A condition is not understood.
        InvalidRule: An entry is no watchpoint.
        StoreUnavailable: The control channel cannot be read.
    """
    in_force = {watchpoint.name: watchpoint for watchpoint in watchpoints_of({FIELD: _in_force(reader, run)})}
    requested = watchpoints_of({FIELD: requested_watchpoints(reader, run)})
    hits = hits_of(reader, run)
    return tuple(
        WatchpointStatus(
            watchpoint,
            in_force.get(watchpoint.name) == watchpoint,
            tuple(hit for hit in hits if hit.rule == f"{PREFIX}{watchpoint.name}"),
        )
        for watchpoint in requested
    )


def hits_of(reader: Reader, run: Run) -> tuple[Finding, ...]:
    """Return all findings of the run's watchpoints, removed ones included, earliest first."""
    return tuple(finding for finding in reader.findings(run.id) if finding.rule.startswith(PREFIX))


def refusal(reader: Reader, run: Run) -> str:
    """Return why the training refused the last request; empty when it accepted it."""
    changed, refused = (_last(reader, run, f"configuration_{how}") for how in ("changed", "refused"))
    if refused is None or (changed is not None and changed.step > refused.step):
        return ""
    return str(refused.data.get("error", ""))


def training_status(reader: Reader, run: Run) -> TrainingStatus:
    """Return the state that the run's training reports.

    Raises:
        StoreUnavailable: The control channel cannot be read, or holds no valid state.
    """
    channel = reader.read(lambda store: store.control_channel(run.id))
    key = (run.id, STATE, channel.stamp(STATE), channel.stamp(COMMAND))
    return reader.kept(key, lambda _: _status(run.id, channel))  # a state with many tensors takes long to be read


def _status(run: str, channel: ControlChannel) -> TrainingStatus:
    try:
        state = state_of(channel)
    except TypeError as error:
        raise StoreUnavailable(f"the state of run {run!r} is not understood: {error}") from error
    last = channel.read(COMMAND)
    number = last.get("number", 0) if last else 0
    return TrainingStatus(state, isinstance(number, int) and number > state.obeyed)


def running_trainings(reader: Reader) -> tuple[tuple[Run, TrainingStatus], ...]:
    """Return the running trainings, newest first, with the state of each, `unknown` where it cannot be read."""
    running = [run for run in reader.runs() if run.state == "running"]
    return tuple((run, _status_or_unknown(reader, run)) for run in running[:_ATTACHED])


def _status_or_unknown(reader: Reader, run: Run) -> TrainingStatus:
    try:
        return training_status(reader, run)
    except StoreUnavailable as error:
        return TrainingStatus(TrainingState("unknown", run.last_step, str(error)), is_pending=False)


def _in_force(reader: Reader, run: Run) -> list[Json]:
    events = [event for event in _events(reader, run, "configuration_changed") if FIELD in event.data]
    return _list(events[-1].data[FIELD] if events else run.config.get(FIELD))


def _last(reader: Reader, run: Run, kind: str) -> Event | None:
    return next(reversed(_events(reader, run, kind)), None)


def _events(reader: Reader, run: Run, kind: str) -> Sequence[Event]:
    return reader.cached(run.id, ("events", kind, "all"), lambda store: store.events(run.id, kind=kind))


def _list(entries: Json) -> list[Json]:
    return list(entries) if isinstance(entries, list | tuple) else []
