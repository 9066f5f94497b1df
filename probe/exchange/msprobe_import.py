"""What msprobe's monitor wrote: its folders of CSV files, and the trend database that its `data2db` makes of them.

    <time>-rank<N>/<metric>_<first step>-<last step>.csv     vpp_stage, name, step[, micro_step], norm, min, max, ...
    monitor_data.trend.db                                    monitoring_targets, monitoring_metrics, trend_data

Its numbers were rounded to six decimals (by default) when they were written; what is imported is what is there.

Reference:
    MindStudio-Probe, "monitor_instruct" and "trend_visualization_instruct".
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pandas as pd

from ..errors import ImportFailed
from .damaged_files import reading
from .run_import import ImportedRank, ImportedRun, importer

_DATABASE = "monitor_data.trend.db"
_FOLDER = re.compile(r"(?P<time>.+)-rank(?P<rank>\d+)")
_FILE = re.compile(r"(?P<metric>.+)_(?P<first>\d+)-(?P<last>\d+)\.csv")

#: Its metric, and our subject. The end of a module's name says which of its tensors an activation is.
_SUBJECTS: Final = {
    "actv": "activation",
    "actv_grad": "activation_grad",
    "grad_unreduced": "gradient/unreduced",
    "grad_reduced": "gradient",
    "exp_avg": "optimizer/exp_avg",
    "exp_avg_sq": "optimizer/exp_avg_sq",
    "param_origin": "weight",
    "param_updated": "weight/updated",
    "linear_hook": "weight",
    "attention_hook": "activation",
}
#: In `actv_grad` files older versions leave out the `_grad` of the end.
_ENDS: Final = {
    "activation": {".output": "activation", ".input": "input"},
    "activation_grad": {
        ".output_grad": "activation_grad",
        ".input_grad": "input_grad",
        ".output": "activation_grad",
        ".input": "input_grad",
    },
}
#: `zeros` of msprobe is a share of elements near 0, ours counts exact zeros: another statistic.
_STATISTICS: Final = {
    "norm": "l2_norm",
    "min": "min",
    "max": "max",
    "mean": "mean",
    "nans": "nans",
    "zeros": "near_zero_share",
    "entropy": "attention_entropy",
    "softmax_max": "attention_max",
    "sr": "stable_rank",
    "kernel_norm": "spectral_norm",
}


def _rank_folders(path: Path) -> list[tuple[int, Path]]:
    folders = [path, *sorted(path.iterdir())] if path.is_dir() else []
    matches = ((_FOLDER.fullmatch(folder.name), folder) for folder in folders)
    return [(int(match["rank"]), folder) for match, folder in matches if match and any(_files(folder))]


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield metric and path of every CSV file of the folder, in the order of their steps."""
    if folder.is_dir():
        found = [(match, file) for file in folder.glob("*.csv") if (match := _FILE.fullmatch(file.name))]
        for match, file in sorted(found, key=lambda entry: (entry[0]["metric"], int(entry[0]["first"]))):
            yield match["metric"], file


def _database(path: Path) -> Path | None:
    file = path / _DATABASE if path.is_dir() else path
    return file if file.name.endswith(".trend.db") and file.is_file() else None


@importer("msprobe", recognises=lambda path: _database(path) is not None or bool(_rank_folders(path)))
def read(path: Path) -> Iterator[ImportedRun]:
    """Yield one run: from the trend database if there is one, else from the CSV folders of all ranks."""
    notes: list[str] = []
    database = _database(path)
    if database is not None:
        yield ImportedRun(database.resolve().parent.name, _from_database(database, notes), {"source": "msprobe"}, notes)
        return
    folders = _rank_folders(path)
    if folders:
        name = path.resolve().name
        yield ImportedRun(name, _from_folders(folders, notes), {"source": "msprobe"}, notes)


def _from_folders(folders: list[tuple[int, Path]], notes: list[str]) -> Iterator[ImportedRank]:
    for rank, folder in folders:
        tables = []
        for metric, file in _files(folder):
            with reading(file, "cannot be read"):
                tables.append(_long(_csv(file), metric, rank, notes))
        yield ImportedRank(rank, pd.concat(tables, ignore_index=True), source=str(folder))


def _csv(file: Path) -> pd.DataFrame:
    table = pd.read_csv(file, low_memory=False)
    missing = [column for column in ("vpp_stage", "name", "step") if column not in table.columns]
    if missing:
        raise ImportFailed(f"{file} lacks the columns {', '.join(missing)}, which msprobe's monitor writes")
    return table


def _from_database(file: Path, notes: list[str]) -> Iterator[ImportedRank]:
    query = (
        "select t.*, g.target_name as name, g.vpp_stage, g.micro_step, m.metric_name from trend_data t "
        "join monitoring_targets g using (target_id) join monitoring_metrics m using (metric_id) where t.rank = ?"
    )
    with (
        reading(file, "is no trend database of msprobe's monitor", sqlite3.Error, pd.errors.DatabaseError),
        closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as connection,
    ):
        for (rank,) in connection.execute("select distinct rank from trend_data order by rank").fetchall():
            table = pd.read_sql_query(query, connection, params=(rank,))
            groups = table.groupby("metric_name", sort=False)
            parts = [_long(rows, str(metric), int(rank), notes) for metric, rows in groups]
            yield ImportedRank(int(rank), pd.concat(parts, ignore_index=True), source=str(file))


def _long(table: pd.DataFrame, metric: str, rank: int, notes: list[str]) -> pd.DataFrame:
    """Convert to one row per value, with the columns of `ImportedRank.points`."""
    subject = _SUBJECTS.get(metric)
    columns = [name for name in table.columns if name in _STATISTICS]
    if subject is None or not columns:
        note = f"rank {rank}: no subject of ours is '{metric}'; its files were left out"
        if note not in notes:
            notes.append(note)
        columns = []
    index = table[["step"]].assign(micro_step=table.get("micro_step", 0), time=float("nan"), call=0)
    plain = table["name"].astype(str)
    names = plain.where(table["vpp_stage"] == 0, table["vpp_stage"].astype(str) + ":" + plain)
    known = {
        name: _site_and_subject(name, subject or "") if isinstance(name, str) else (name, subject)
        for name in names.unique()
    }
    sites, subjects = names.map({name: site for name, (site, _) in known.items()}), [known[name][1] for name in names]
    parts = [
        index.assign(
            site=sites,
            metric=[f"{each}/{_STATISTICS[name]}" for each in subjects],
            value=pd.to_numeric(table[name], "coerce"),
        )
        for name in columns
    ]
    values = pd.concat(parts, ignore_index=True) if parts else index.assign(site="", metric="", value=0.0).iloc[:0]
    return values[values["micro_step"].notna()]


def _site_and_subject(name: str, subject: str) -> tuple[str, str]:
    """Return site and subject of a name; `layer.output` is the activation of `layer`."""
    for end, kind in _ENDS.get(subject, {}).items():
        if name.endswith(end):
            return name.removesuffix(end), kind
    return name, subject
