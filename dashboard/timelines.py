"""A part of a run as a timeline that chrome://tracing and Perfetto open, served as a file."""

import json
import re
from typing import Final

import flask

from ..insight.profile import chrome_trace
from ..storage import RunNotFound
from .address import BadAddress
from .data import Reader
from .spans import SPAN, Span, span_of

_ROUTE: Final = "/trace"
#: Steps that one file holds. Our choice: some hundred thousand events, more than a viewer opens with ease.
_MOST: Final = 20_000


def timeline_link(run: str, span: str | None) -> str:
    """Where the timeline of these steps, or of the newest, can be fetched."""
    said = f"&{SPAN.name}={span}" if span_of(span) else ""
    return f"{_ROUTE}?run={run}{said}"


def serve_timelines(server: flask.Flask, reader: Reader) -> None:
    """Adds the route: 404 for an unknown run, 400 for a stretch that is none or too long."""

    @server.get(_ROUTE)
    def timeline() -> flask.Response:
        try:
            run = reader.find(flask.request.args.get("run", ""))
            first, last = _asked(flask.request.args.get(SPAN.name, "")) or (None, None)
        except RunNotFound as error:
            return _refusal(str(error), 404)
        except BadAddress as error:
            return _refusal(str(error), 400)
        document = reader.read(lambda store: chrome_trace(store, run, first=first, last=last))
        answer = flask.Response(json.dumps(document, allow_nan=False), mimetype="application/json")
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", run.id)
        answer.headers["Content-Disposition"] = f'attachment; filename="{name}.trace.json"'
        return answer


def _asked(text: str) -> Span | None:
    SPAN.check(text)
    span = span_of(text)
    if span is not None and span[1] - span[0] >= _MOST:
        raise BadAddress(f"a timeline holds at most {_MOST:,} steps, got {text}; choose fewer")
    return span


def _refusal(words: str, status: int) -> flask.Response:
    return flask.Response(words + "\n", status=status, mimetype="text/plain")
