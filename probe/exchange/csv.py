"""A run as one CSV table a rank: a row a value, floats written so that they read back bit for bit."""

from itertools import islice
from pathlib import Path

import pandas as pd

from ...storage import Run, Store
from .registry import exporter, points

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
            file.write("rank,step,micro_step,time,site,call,metric,value\n")
    return path
