"""Files to download: a whole series as CSV or Parquet, and steps as a timeline for chrome://tracing and Perfetto."""

import csv
import io
import json
import re
from collections.abc import Callable
from importlib import import_module
from typing import Final

import flask

from ..insight.profile import chrome_trace
from ..storage import InvalidName, RunNotFound, Series
from .address import SPAN, BadAddress, PageAddress, Span, span_of
from .queries.reader import Reader
from .queries.tensor_queries import whole_series

FORMATS: Final = ("csv", "parquet")
_SERIES_ROUTE: Final = "/download"


def download_link(address: PageAddress, *, form: str, call: int = 0) -> str:
    """Return the link that downloads the series at this address, of the first rank of the run."""
    options = {"format": form, "call": str(call)}
    return PageAddress(_SERIES_ROUTE[1:], address.run, address.metric, address.site or "", options=options).href


def serve_downloads(server: flask.Flask, reader: Reader) -> None:
    """Add the route: 404 for a series that was not recorded, 400 for a bad request, 501 without Parquet."""

    @server.get(_SERIES_ROUTE)
    def download() -> flask.Response:
        query = flask.request.args
        form = query.get("format", "csv")
        if form not in FORMATS:
            return _refusal(f"format={form[:20]!r} is not known; expected {' or '.join(FORMATS)}", 400)
        try:
            run = reader.find(query.get("run", "")).id
            rank = int(query["rank"]) if "rank" in query else None
            call = int(query.get("call", "0"))
            series = whole_series(reader, run, query.get("site", ""), query.get("metric", ""), rank=rank, call=call)
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
    """Write every number with all its digits, non-finite values as `nan`, `inf` and `-inf`."""
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


_TRACE_ROUTE: Final = "/trace"
#: Steps that one file holds. Our choice: some hundred thousand events, more than a viewer opens with ease.
_MOST_STEPS: Final = 20_000


def timeline_link(run: str, span: str | None) -> str:
    """Return the link that downloads the timeline of these steps, or of the newest ones."""
    query = f"&{SPAN.name}={span}" if span_of(span) else ""
    return f"{_TRACE_ROUTE}?run={run}{query}"


def serve_timelines(server: flask.Flask, reader: Reader) -> None:
    """Add the route: 404 for an unknown run, 400 for a range of steps that is invalid or too long."""

    @server.get(_TRACE_ROUTE)
    def timeline() -> flask.Response:
        try:
            run = reader.find(flask.request.args.get("run", ""))
            first, last = _requested_span(flask.request.args.get(SPAN.name, "")) or (None, None)
        except RunNotFound as error:
            return _refusal(str(error), 404)
        except BadAddress as error:
            return _refusal(str(error), 400)
        document = reader.read(lambda store: chrome_trace(store, run, first=first, last=last))
        answer = flask.Response(json.dumps(document, allow_nan=False), mimetype="application/json")
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", run.id)
        answer.headers["Content-Disposition"] = f'attachment; filename="{name}.trace.json"'
        return answer


def _requested_span(text: str) -> Span | None:
    SPAN.check(text)
    span = span_of(text)
    if span is not None and span[1] - span[0] >= _MOST_STEPS:
        raise BadAddress(f"a timeline holds at most {_MOST_STEPS:,} steps, got {text}; choose fewer")
    return span
