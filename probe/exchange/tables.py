"""Tables of values, a file a rank, as `mindscope export` writes them: which files make a run, and what is in them."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ...storage import InvalidName, split_metric
from .importing import ImportedRank, ImportedRun, ImportFailed

__all__ = ["COLUMNS", "has_suffix", "read_tables"]

COLUMNS: Final = ("rank", "step", "micro_step", "time", "site", "call", "metric", "value")

_RANK = re.compile(r"(?P<run>.+)\.rank(?P<rank>\d+)")


def has_suffix(path: Path, suffix: str) -> bool:
    """Whether the path is a file of that suffix, or a folder with such files."""
    return path.suffix == suffix if path.is_file() else any(path.glob(f"*{suffix}"))


def read_tables(path: Path, suffix: str, read: Callable[[Path], Any]) -> Iterator[ImportedRun]:
    """The runs of the files at the path, sorted by name.

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
        yield ImportedRun(run, (ImportedRank(rank, _checked(file, read)) for rank, file in sorted(ranks)))


def _checked(file: Path, read: Callable[[Path], Any]) -> pd.DataFrame:
    try:
        table: pd.DataFrame = read(file)
    except (ValueError, OSError, KeyError) as error:
        raise ImportFailed(f"{file} cannot be read: {str(error).splitlines()[0]}") from error
    missing = [column for column in COLUMNS[1:] if column not in table.columns]
    if missing:
        raise ImportFailed(f"{file} lacks the columns {', '.join(missing)}; expected {', '.join(COLUMNS)}")
    try:
        for metric in table["metric"].unique():
            split_metric(str(metric))
    except InvalidName as error:
        raise ImportFailed(f"{file}: {error}") from error
    return table.assign(site=table["site"].astype(str), metric=table["metric"].astype(str))
