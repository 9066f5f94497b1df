"""Tables of values, a file a rank: which files make a run, and the CSV form, whose floats read back bit for bit."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import pandas as pd

from ...storage import Run, Store
from ..errors import ImportFailed
from .damaged_files import reading
from .run_export import exporter, points
from .run_import import ImportedRank, ImportedRun, importer

__all__ = ["COLUMNS", "has_suffix", "read_tables"]

COLUMNS: Final = ("rank", "step", "micro_step", "time", "site", "call", "metric", "value")

_RANK = re.compile(r"(?P<run>.+)\.rank(?P<rank>\d+)")


def has_suffix(path: Path, suffix: str) -> bool:
    """Return whether the path is a file of that suffix, or a folder with such files."""
    return path.suffix == suffix if path.is_file() else any(path.glob(f"*{suffix}"))


def read_tables(path: Path, suffix: str, read: Callable[[Path], pd.DataFrame]) -> Iterator[ImportedRun]:
    """Yield the runs of the files at the path, sorted by name.

    Args:
        read: A file to its DataFrame; what it raises becomes one line that names the file.

    Raises:
        ImportFailed: A file cannot be read, lacks columns or holds an unknown metric; when its rank is reached.
    """
    files = [path] if path.is_file() else sorted(path.glob(f"*{suffix}"))
    runs: dict[str, list[tuple[int, Path]]] = {}
    for file in files:
        match = _RANK.fullmatch(file.name.removesuffix(suffix))
        run, rank = (match["run"], int(match["rank"])) if match else (file.name.removesuffix(suffix), 0)
        runs.setdefault(run, []).append((rank, file))
    for run, ranks in runs.items():
        parts = (ImportedRank(rank, _checked(file, read), source=str(file)) for rank, file in sorted(ranks))
        yield ImportedRun(run, parts)


def _checked(file: Path, read: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    with reading(file, "cannot be read"):
        table = read(file)
    missing = [column for column in COLUMNS[1:] if column not in table.columns]
    if missing:
        raise ImportFailed(f"{file} lacks the columns {', '.join(missing)}; expected {', '.join(COLUMNS)}")
    return table


_ROWS_AT_ONCE = 200_000


@exporter("csv")
def write(store: Store, run: Run, folder: Path) -> list[Path]:
    """Write one file a rank with the columns `rank, step, micro_step, time, site, call, metric, value`.

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
    """Read the runs of the CSV files at the path, one for each `RUN.rankN.csv` group."""
    return read_tables(path, ".csv", _read)
