"""Who writes a recording: one process at a time."""

from sqlalchemy import Connection, insert, select

from ..encoding.text import to_json
from ..errors import StoreUnavailable
from ..process import describe, identity, is_alive, machine
from ..run import Run
from ..schema.changes import touch
from ..schema.tables import recording
from .recording import summarise_recording


def claim(connection: Connection, run: Run, rank: int, place: str) -> tuple[int, Run]:
    """The number of the recording that this process now writes, and the run as that recording knows it.

    Raises:
        StoreUnavailable: Another living writer has it.
    """
    ours = (recording.c.run == run.id) & (recording.c.rank == rank)
    query = select(recording.c.id, recording.c.state, recording.c.writer, recording.c.updated_at).where(ours)
    if (row := connection.execute(query).one_or_none()) is not None:
        if row.state == "running" and is_alive(row.writer, row.updated_at):
            raise StoreUnavailable(
                f"rank {rank} of run {run.id!r} in {place} is being written by {describe(row.writer)}; "
                f"one rank has one writer: wait for it, or begin another run"
            )
        touch(connection, row.id, state="running", error="", writer=identity())
        return row.id, summarise_recording(connection, row.id).run
    values = {
        "run": run.id,
        "rank": rank,
        "name": run.name,
        "kind": run.kind,
        "framework": run.framework,
        "parent": run.parent,
        "state": "running",
        "error": "",
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "last_step": -1,
        "revision": 0,
        "writer": identity(),
        "config": to_json(run.config),
        "tags": to_json(run.tags),
        "host": to_json(machine() | dict(run.host)),
    }
    key = connection.execute(insert(recording).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0]), summarise_recording(connection, int(key[0])).run
