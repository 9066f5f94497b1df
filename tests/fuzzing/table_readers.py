"""Fuzzes `mindscope import`: CSV and Parquet tables, TensorBoard's event files, folders and databases of msprobe."""

import io
import random
import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from mindscope.probe.exchange import export, import_runs
from mindscope.probe.exchange.csv_tables import COLUMNS
from mindscope.storage import open_store
from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from tests.fuzzing.fuzz import Reader
from tests.fuzzing.mutations import WORDS, mutated, mutated_texts
from tests.fuzzing.recorded_store import record_run

_CELLS = st.one_of(
    st.sampled_from(WORDS), st.integers().map(str), st.floats().map(repr), st.text(max_size=8), st.just("gradient/mean")
)


def _exported(form: str, pattern: str, folder: Path) -> list[bytes]:
    with open_store("memory:") as store:
        record_run(store, steps=8)
        export(store, "latest", form, folder)
    return [path.read_bytes() for path in sorted(folder.rglob(pattern))]


def _imported(path: Path, form: str | None = None) -> None:
    with open_store("memory:") as store:
        for run, _ in import_runs(store, path, form=form):
            for _ in store.replay(run.id, rank=run.ranks[0]):
                pass


def _read_csv(data: bytes, folder: Path) -> None:
    path = folder / "run.rank0.csv"
    path.write_bytes(data)
    _imported(path, form="csv")


@st.composite
def _csv_tables(draw: st.DrawFn) -> bytes:
    names = draw(st.permutations(COLUMNS)) if draw(st.booleans()) else list(COLUMNS)
    rows = draw(st.lists(st.lists(_CELLS, min_size=len(COLUMNS), max_size=len(COLUMNS)), max_size=6))
    lines = [",".join(names), *(",".join(row) for row in rows)]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


_PLAIN = {"rank": [0], "step": [1], "micro_step": [0], "time": [0.0], "site": ["w"], "call": [0], "value": [1.0]}
_COLUMN = st.one_of(
    *(st.lists(each, min_size=2, max_size=2) for each in (st.integers(-(2**63), 2**63 - 1), st.floats(), st.text())),
    st.lists(st.none() | st.integers(-5, 5), min_size=2, max_size=2),
    st.lists(st.binary(max_size=4), min_size=2, max_size=2),
    st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=2, max_size=2),
    st.lists(st.datetimes(), min_size=2, max_size=2),
    st.lists(st.booleans(), min_size=2, max_size=2),
)


@st.composite
def _parquet_tables(draw: st.DrawFn) -> bytes:
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {name: values * 2 for name, values in _PLAIN.items()}
    columns["metric"] = ["gradient/mean", "scalar/loss"]
    for name in draw(st.lists(st.sampled_from(COLUMNS), max_size=3)):
        columns[name] = draw(_COLUMN)
    for name in draw(st.lists(st.sampled_from(COLUMNS), max_size=1)):
        columns.pop(name, None)
    written = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), written)
    return written.getvalue()


def _read_parquet(data: bytes, folder: Path) -> None:
    path = folder / "run.rank0.parquet"
    path.write_bytes(data)
    _imported(path, form="parquet")


def _read_events(data: bytes, folder: Path) -> None:
    path = folder / "events.out.tfevents.1.host"
    path.write_bytes(data)
    _imported(path)


def _torch_like_events(folder: Path) -> list[bytes]:
    """Return event files of our export and of another writer: histograms, texts, plain values."""
    from tensorboard.plugins.histogram.summary_v2 import histogram_pb
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.plugins.text.summary_v2 import text_pb

    made = [histogram_pb("fc.weight", [-1.0, 0.0, 2.0]), text_pb("notes", "hello"), scalar_pb("train/loss", 0.5)]
    events = [TensorBoardEvent(wall_time=1.0, step=step, summary=summary) for step, summary in enumerate(made)]
    return [*_exported("tensorboard", "*tfevents*", folder), b"".join(map(_framed, events))]


def _framed(event: TensorBoardEvent | bytes) -> bytes:
    content = event if isinstance(event, bytes) else event.SerializeToString()
    length = struct.pack("<Q", len(content))
    return b"".join(
        (length, struct.pack("<I", masked_crc32c(length)), content, struct.pack("<I", masked_crc32c(content)))
    )


def _mutated_events(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return an event file whose bytes, or whose events behind right checksums, are mutated."""
    if draw.random() < 0.3:
        return mutated(draw, seeds)
    data, events = draw.choice(seeds), []
    while len(data) >= 12:
        (length,) = struct.unpack("<Q", data[:8])
        events.append(data[12 : 12 + length])
        data = data[16 + length :]
    place = draw.randrange(len(events))
    events[place] = mutated(draw, events)
    return b"".join(map(_framed, events[: place + 3]))


_SCRIPT = """
create table monitoring_targets (
    target_id integer primary key, target_name text, vpp_stage integer, micro_step integer
);
create table monitoring_metrics (metric_id integer primary key, metric_name text);
create table trend_data (rank integer, step integer, target_id integer, metric_id integer, norm real, min real);
insert into monitoring_targets values (1, 'fc.output', 0, 0), (2, 'fc.weight', 0, 0);
insert into monitoring_metrics values (1, 'actv'), (2, 'exp_avg_sq');
insert into trend_data values (0, 0, 1, 1, 3.5, -1), (0, 1, 1, 1, 4.5, -2), (3, 0, 2, 2, 1e-9, 0);
"""


def _database(folder: Path, script: str) -> bytes:
    path = folder / "monitor_data.trend.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    return path.read_bytes()


def _msprobe_dumps(folder: Path) -> list[bytes]:
    activation = "vpp_stage,name,step,micro_step,norm,nans,shape\n" + "".join(
        f'0,mlp.fc1.{end},{step},{micro},{step + micro},0,"[2, 3]"\n'
        for step in (0, 1)
        for micro in (0, 1)
        for end in ("output", "input")
    )
    gradient = "vpp_stage,name,step,norm,max,zeros\n0,mlp.fc1.weight,0,0.5,inf,0.25\n1,head.weight,1,nan,1.0,0\n"
    return [activation.encode(), gradient.encode(), _database(folder, _SCRIPT)]


def _mutated_dumps(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a mutated CSV file, or a database with odd values or damaged pages."""
    if draw.random() < 0.6:
        return mutated_texts(draw, seeds[:2])
    if draw.random() < 0.3:
        return mutated(draw, seeds[2:])
    table, column = draw.choice(
        [
            ("trend_data", "rank"),
            ("trend_data", "step"),
            ("trend_data", "norm"),
            ("monitoring_targets", "target_name"),
            ("monitoring_targets", "vpp_stage"),
            ("monitoring_targets", "micro_step"),
            ("monitoring_metrics", "metric_name"),
        ]
    )
    value = draw.choice(["null", "'x'", "x'ff00'", "-1", str(2**63 - 1), "1e400", "1.5", f"'{'n' * 5000}'", "''"])
    change = f"update {table} set {column} = {value} where rowid >= {draw.choice((0, 2))};"
    if draw.random() < 0.1:
        change = f"alter table {table} rename column {column} to other;"
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_SCRIPT + change)
        return database.serialize()


def _read_msprobe(data: bytes, folder: Path) -> None:
    if data.startswith(b"SQLite format 3"):
        (folder / "monitor_data.trend.db").write_bytes(data)
        _imported(folder, form="msprobe")
        return
    place = folder / "Dec03_21-34-40-rank0"
    place.mkdir()
    (place / "actv_0-1.csv").write_bytes(data)
    _imported(folder, form="msprobe")


CSV = Reader(
    "csv", lambda folder: _exported("csv", "*.csv", folder), _read_csv, mutate=mutated_texts, odd=_csv_tables()
)
PARQUET = Reader(
    "parquet", lambda folder: _exported("parquet", "*.parquet", folder), _read_parquet, odd=_parquet_tables()
)
TENSORBOARD = Reader("tensorboard", _torch_like_events, _read_events, mutate=_mutated_events)
MSPROBE = Reader("msprobe", _msprobe_dumps, _read_msprobe, mutate=_mutated_dumps)
