"""A whole series as a file: CSV for every program, Parquet for the ones that read it."""

import csv
import io
import re
from collections.abc import Callable
from importlib import import_module
from typing import Final

import flask

from ..storage import InvalidName, RunNotFound, Series
from .address import Address
from .data import Reader, whole_series

FORMATS: Final = ("csv", "parquet")
_ROUTE: Final = "/download"


def download_link(address: Address, *, form: str, rank: int = 0, call: int = 0) -> str:
    """Where the series that the address looks at can be fetched."""
    options = {"format": form, "rank": str(rank), "call": str(call)}
    return Address(_ROUTE[1:], address.run, address.metric, address.site or "", options=options).href


def serve_downloads(server: flask.Flask, reader: Reader) -> None:
    """Adds the route: 404 for what was not recorded, 400 for what is no request, 501 where Parquet is not installed."""

    @server.get(_ROUTE)
    def download() -> flask.Response:
        said = flask.request.args
        form = said.get("format", "csv")
        if form not in FORMATS:
            return _refusal(f"format={form[:20]!r} is not known; expected {' or '.join(FORMATS)}", 400)
        try:
            run = reader.find(said.get("run", "")).id
            rank, call = (int(said.get(name, "0")) for name in ("rank", "call"))
            series = whole_series(reader, run, said.get("site", ""), said.get("metric", ""), rank=rank, call=call)
        except RunNotFound as error:
            return _refusal(str(error), 404)
        except (InvalidName, ValueError) as error:
            return _refusal(str(error), 400)
        if not series.total:
            return _refusal(f"nothing was recorded of {series.metric!r} at {series.site!r}", 404)
        return _file(run, series, form)


def _file(run: str, series: Series, form: str) -> flask.Response:
    write: Callable[[Series], bytes] = _csv if form == "csv" else _parquet
    try:
        content = write(series)
    except ImportError:
        return _refusal("Parquet needs pyarrow, which is not installed; pip install 'mindscope[parquet]'", 501)
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{run}.{series.site}.{series.metric}.rank{series.rank}")
    answer = flask.Response(content, mimetype="text/csv" if form == "csv" else "application/vnd.apache.parquet")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return answer


def _csv(series: Series) -> bytes:
    """Every number with all its digits; what is not finite as `nan`, `inf` and `-inf`."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("step", "time", "value"))
    columns = (series.steps.tolist(), series.times.tolist(), series.values.tolist())
    rows.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _parquet(series: Series) -> bytes:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    table = arrow.table({"step": series.steps, "time": series.times, "value": series.values})
    content = io.BytesIO()
    parquet.write_table(table, content, compression="zstd")
    return content.getvalue()


def _refusal(words: str, status: int) -> flask.Response:
    return flask.Response(words + "\n", status=status, mimetype="text/plain")
