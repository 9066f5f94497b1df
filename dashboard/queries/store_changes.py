"""The changes that a visitor may make in the store through the dashboard; each checks permissions first."""

from collections.abc import Callable, Mapping, Sequence

from ...insight.watchpoints import watchpoints_of
from ...storage import Json, Run, Store, StoreUnavailable
from ...storage.control_channel import Action, request_settings, send
from ..security import demand_change
from .reader import Reader
from .watchpoint_queries import FIELD


def annotate(reader: Reader, run: str, *, name: str, tags: Mapping[str, Json], remark: str) -> None:
    """Give a run another name, tags and remark.

    Raises:
        NotAllowed: The visitor may not change anything.
    """
    _change(reader, run, lambda store: store.annotate(run, name=name, tags=tags, remark=remark))


def delete(reader: Reader, run: str) -> None:
    """Delete a run and everything recorded of it.

    Raises:
        NotAllowed: The visitor may not change anything.
        StoreUnavailable: The run is being written.
    """
    _change(reader, run, lambda store: store.delete_run(run))


def mute(reader: Reader, run: str, rule: str, site: str, *, muted: bool) -> None:
    """Hide the findings of a rule at a site, or show them again.

    Raises:
        NotAllowed: The visitor may not change anything.
    """
    _change(reader, run, lambda store: store.mute(run, rule, site, muted=muted))


def command_training(
    reader: Reader, run: Run, do: Action, *, steps: int = 1, subject: str = "weight", sites: str = "*"
) -> None:
    """Send a command (pause, continue, show tensors) to the training of a run; it obeys at the end of its step.

    Raises:
        NotAllowed: The visitor may not change anything.
        StoreUnavailable: The run is over.
    """
    _change(
        reader,
        _running(run).id,
        lambda store: send(store.control_channel(run.id), do, steps=steps, subject=subject, sites=sites),
    )


def request_watchpoints(reader: Reader, run: Run, entries: Sequence[Json]) -> None:
    """Replace the watchpoints of a running training, from its next step on.

    Raises:
        NotAllowed: The visitor may not change anything.
        InvalidName: A condition is not understood; nothing is requested.
        InvalidRule: An entry is no watchpoint, or two have one name.
        StoreUnavailable: The run is over.
    """
    watchpoints_of({FIELD: list(entries)})
    _change(
        reader, _running(run).id, lambda store: request_settings(store.control_channel(run.id), {FIELD: list(entries)})
    )


def _running(run: Run) -> Run:
    if run.state != "running":
        raise StoreUnavailable(
            f"run {run.name or run.id!r} is {run.state_words}; only a running training accepts commands"
        )
    return run


def _change(reader: Reader, run: str, write: Callable[[Store], object]) -> None:
    demand_change()
    reader.change(run, write)
