"""What a person has asked a run to watch for, what was met, and where the trainings that are running stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...insight.watchpoints import PREFIX, Watchpoint, watchpoints_of
from ...storage import Event, Finding, Json, Run, StoreUnavailable
from ...storage.mail.commands import COMMAND, STATE, TrainingState, state_of
from ...storage.mail.mailbox import Mailbox
from ...storage.mail.settings import SETTINGS, changes_of, together
from .reader import Reader

#: The field of a run's settings that is ours.
FIELD: Final = "watchpoints"
#: Running trainings whose state is asked for, the newest; our choice: each costs a look into its mailbox.
_ATTACHED: Final = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """One watchpoint of a run.

    Args:
        is_in_force: False for one that was asked for and that the training has not taken over yet.
        hits: What has met it, earliest first.
    """

    watchpoint: Watchpoint
    is_in_force: bool
    hits: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Halt:
    """Where a training stands.

    Args:
        is_pending: A command lies there that it has not obeyed yet.
    """

    state: TrainingState
    is_pending: bool


def asked_for(reader: Reader, run: Run) -> list[Json]:
    """The entries of all watchpoints that the run is to have: those set under way, else those it began with.

    Raises:
        StoreUnavailable: The mailbox cannot be read.
    """
    mailbox = reader.read(lambda store: store.mailbox(run.id))
    key = (run.id, SETTINGS, mailbox.stamp(SETTINGS))
    found = reader.kept(key, lambda _: together(changes_of(mailbox)))
    return _list(found[FIELD] if FIELD in found else run.config.get(FIELD))


def standings(reader: Reader, run: Run) -> tuple[Standing, ...]:
    """The watchpoints that the run is to have, in their order.

    Raises:
        InvalidName: A condition is not understood.
        InvalidRule: An entry is no watchpoint.
        StoreUnavailable: The mailbox cannot be read.
    """
    now = {one.name: one for one in watchpoints_of({FIELD: _in_force(reader, run)})}
    asked = watchpoints_of({FIELD: asked_for(reader, run)})
    hits = hits_of(reader, run)
    return tuple(
        Standing(one, now.get(one.name) == one, tuple(hit for hit in hits if hit.rule == f"{PREFIX}{one.name}"))
        for one in asked
    )


def hits_of(reader: Reader, run: Run) -> tuple[Finding, ...]:
    """All that has met a watchpoint of the run, of those that were taken away again too, earliest first."""
    return tuple(one for one in reader.findings(run.id) if one.rule.startswith(PREFIX))


def refusal(reader: Reader, run: Run) -> str:
    """Why the training has refused what was asked of it last; empty when it has taken it over."""
    changed, refused = (_last(reader, run, f"configuration_{how}") for how in ("changed", "refused"))
    if refused is None or (changed is not None and changed.step > refused.step):
        return ""
    return str(refused.data.get("error", ""))


def halt_of(reader: Reader, run: Run) -> Halt:
    """Where the training of the run says that it stands.

    Raises:
        StoreUnavailable: The mailbox cannot be read, or holds what is no state.
    """
    mailbox = reader.read(lambda store: store.mailbox(run.id))
    key = (run.id, STATE, mailbox.stamp(STATE), mailbox.stamp(COMMAND))
    return reader.kept(key, lambda _: _halt(run.id, mailbox))  # a state with many tensors takes long to be read


def _halt(run: str, mailbox: Mailbox) -> Halt:
    try:
        state = state_of(mailbox)
    except TypeError as error:
        raise StoreUnavailable(f"what run {run!r} says of its state is not understood: {error}") from error
    last = mailbox.read(COMMAND)
    number = last.get("number", 0) if last else 0
    return Halt(state, isinstance(number, int) and number > state.obeyed)


def attached(reader: Reader) -> tuple[tuple[Run, Halt], ...]:
    """The runs that are being written, newest first, and where each of them stands, `unknown` where nothing tells."""
    running = [run for run in reader.runs() if run.state == "running"]
    return tuple((run, _halt_if_told(reader, run)) for run in running[:_ATTACHED])


def _halt_if_told(reader: Reader, run: Run) -> Halt:
    try:
        return halt_of(reader, run)
    except StoreUnavailable as error:
        return Halt(TrainingState("unknown", run.last_step, str(error)), is_pending=False)


def _in_force(reader: Reader, run: Run) -> list[Json]:
    events = [one for one in _events(reader, run, "configuration_changed") if FIELD in one.data]
    return _list(events[-1].data[FIELD] if events else run.config.get(FIELD))


def _last(reader: Reader, run: Run, kind: str) -> Event | None:
    return next(reversed(_events(reader, run, kind)), None)


def _events(reader: Reader, run: Run, kind: str) -> Sequence[Event]:
    return reader.cached(run.id, ("events", kind, "all"), lambda store: store.events(run.id, kind=kind))


def _list(entries: Json) -> list[Json]:
    return list(entries) if isinstance(entries, list | tuple) else []
