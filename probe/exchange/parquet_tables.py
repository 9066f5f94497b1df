"""A run as one Parquet table a rank, every bit kept, and such tables read back; needs the extra `parquet`."""

from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType

import pandas as pd

from ...storage import Run, Store
from ..errors import ImportFailed
from .csv_tables import has_suffix, read_tables
from .run_export import RunExportError, exporter, points
from .run_import import ImportedRun, importer

_ROWS_AT_ONCE = 500_000


@exporter("parquet")
def write(store: Store, run: Run, folder: Path) -> list[Path]:
    """Write one zstd-compressed file a rank with the columns of the CSV export."""
    return [_write_rank(store, run, rank, folder / f"{run.id}.rank{rank}.parquet") for rank in run.ranks]


def _write_rank(store: Store, run: Run, rank: int, path: Path) -> Path:
    arrow, parquet = _pyarrow(RunExportError), _pyarrow(RunExportError, "parquet")
    schema = arrow.schema(
        [
            ("rank", arrow.int32()),
            ("step", arrow.int64()),
            ("micro_step", arrow.int32()),
            ("time", arrow.float64()),
            ("site", arrow.dictionary(arrow.int32(), arrow.string())),
            ("call", arrow.int32()),
            ("metric", arrow.dictionary(arrow.int32(), arrow.string())),
            ("value", arrow.float64()),
        ]
    )
    rows = (point for record in store.replay(run.id, rank=rank) for point in points(record, rank))
    with parquet.ParquetWriter(str(path), schema, compression="zstd") as writer:
        while chunk := [asdict(point) for point in islice(rows, _ROWS_AT_ONCE)]:
            writer.write_table(arrow.Table.from_pylist(chunk, schema=schema))
    return path


@importer("parquet", recognises=lambda path: has_suffix(path, ".parquet"))
def read(path: Path) -> Iterator[ImportedRun]:
    """Read the runs of the Parquet files at the path, one for each `RUN.rankN.parquet` group."""
    table = _pyarrow(ImportFailed, "parquet")

    def read_table(file: Path) -> pd.DataFrame:
        frame: pd.DataFrame = table.read_table(str(file)).to_pandas()
        return frame

    return read_tables(path, ".parquet", read_table)


def _pyarrow(error: type[ValueError], part: str = "") -> ModuleType:
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError:
        raise error("Parquet needs pyarrow, which is not installed; pip install 'mindscope[parquet]'") from None
