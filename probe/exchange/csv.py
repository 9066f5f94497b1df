"""A run as one CSV table a rank: a row a value, floats written so that they read back bit for bit; and read back."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pandas as pd

from ...storage import Run, Store
from .importing import ImportedRun, importer
from .registry import exporter, points
from .tables import COLUMNS, has_suffix, read_tables

_ROWS_AT_ONCE = 200_000


@exporter("csv")
def write(store: Store, run: Run, folder: Path) -> list[Path]:
    """One file a rank with the columns `rank, step, micro_step, time, site, call, metric, value`.

    A value that is not a number is written `nan`, infinities `inf` and `-inf`;
    a value that was not observed has no row.
    """
    return [_write_rank(store, run, rank, folder / f"{run.id}.rank{rank}.csv") for rank in run.ranks]


def _write_rank(store: Store, run: Run, rank: int, path: Path) -> Path:
    rows = (point for record in store.replay(run.id, rank=rank) for point in points(record, rank))
    with path.open("w", newline="") as file:
        header = True
        while chunk := list(islice(rows, _ROWS_AT_ONCE)):
            pd.DataFrame(chunk).to_csv(file, index=False, header=header, na_rep="nan")
            header = False
        if header:
            file.write(",".join(COLUMNS) + "\n")
    return path


def _is_ours(path: Path) -> bool:
    if not has_suffix(path, ".csv"):
        return False
    first = path if path.is_file() else next(iter(sorted(path.glob("*.csv"))))
    with first.open("rb") as file:
        return file.readline(200).decode("utf-8", "replace").strip() == ",".join(COLUMNS)


def _read(file: Path) -> pd.DataFrame:
    words = {"site": str, "metric": str, "value": str}
    table = pd.read_csv(file, dtype=words, keep_default_na=False)
    return table.assign(value=table["value"].map(float))


@importer("csv", recognises=_is_ours)
def read(path: Path) -> Iterator[ImportedRun]:
    """The runs of the CSV files at the path, one for each `RUN.rankN.csv` group."""
    return read_tables(path, ".csv", _read)
