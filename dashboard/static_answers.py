"""Responses without a store: the HTML document around each page, its files, and the health check."""

import gzip
import re
import threading
import zlib
from importlib.metadata import version
from typing import Final

import flask
import zstandard

#: Where the browser fetches plotly.js; Dash serves it there as well.
PLOTLY: Final = "/_dash-component-suites/plotly/package_data/plotly.min.js"
#: The one script inside of the document; every other comes from a file, as the policy for scripts demands.
RENDERER: Final = "var renderer = new DashRenderer();"

#: Plotly is the longest script and Dash asks for no figure before it has it, so the browser begins with it.
HEAD: Final = f"""<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="UTF-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>mindscope</title>
    <link rel="icon" type="image/svg+xml" href="/assets/brand.svg">
    <script async src="{PLOTLY}?v={version("plotly")}"></script>
  </head>
  <body>
"""
REST: Final = """
    {%css%}
    {%app_entry%}
    <footer>{%config%}{%scripts%}{%renderer%}</footer>
  </body>
</html>"""

_SCRIPT: Final = re.compile(r'<script src="([^"]*)"></script>\n?')
#: Where Dash keeps a table that no page of ours has.
_UNUSED: Final = "/dash/dash_table/"
#: The library of tables; `assets/tables.js` loads it with the first one.
_LATER: Final = "/dash_ag_grid/"


def needed_scripts(scripts: str) -> str:
    """Keep of Dash's scripts those that every page needs; the scripts of tables load with the first table."""

    def write(found: re.Match[str]) -> str:
        source = found[1]
        if _LATER in source:
            return f'<script type="text/plain" data-later="{source}"></script>\n'
        return "" if _UNUSED in source else found[0]

    return _SCRIPT.sub(write, scripts)


_KINDS: Final = ("text/javascript", "application/javascript", "text/css")
#: Shorter ones fit into few packets as they are; our choice.
_SHORT: Final = 8192
_YEAR_S: Final = 31_536_000
_HOUR_S: Final = 3600
#: What a browser may accept, the faster to unpack first; zstd is offered to this machine and to HTTPS alone.
_CODINGS: Final = ("zstd", "gzip")
#: Higher ones save a twelfth of the bytes of plotly.js for twice the time, which the first visitor waits for.
_LEVELS: Final = {"zstd": 3, "gzip": 6}


def serve_static(server: flask.Flask) -> None:
    """Compress the files that the server sends, and let the browser cache them."""
    packed: dict[tuple[str, str, int], bytes] = {}
    lock = threading.Lock()

    @server.after_request
    def send(answer: flask.Response) -> flask.Response:
        if answer.status_code != 200 or not flask.request.path.startswith(("/assets/", "/_dash-component-suites/")):
            return answer
        if answer.cache_control.max_age is None:
            _cache(answer)
        coding = flask.request.accept_encodings.best_match(_CODINGS)
        if answer.mimetype in _KINDS and coding is not None and flask.request.method == "GET":
            _compress(answer, coding)
        return answer

    def _compress(answer: flask.Response, coding: str) -> None:
        answer.direct_passthrough = False
        whole = answer.get_data()
        if len(whole) < _SHORT:
            return
        key = flask.request.path, coding, zlib.crc32(whole)
        with lock:
            found = packed.get(key)
            if found is None:
                found = packed[key] = _compressed(whole, coding)
        answer.set_data(found)
        answer.headers["Content-Encoding"] = coding
        answer.vary.add("Accept-Encoding")


def _cache(answer: flask.Response) -> None:
    """Cache a file for a year if its address holds its version, else for an hour."""
    says_version = bool({"m", "v"} & set(flask.request.args))
    answer.cache_control.no_cache = None
    answer.cache_control.max_age = _YEAR_S if says_version else _HOUR_S


def _compressed(whole: bytes, coding: str) -> bytes:
    level = _LEVELS[coding]
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=level).compress(whole)
    return gzip.compress(whole, level, mtime=0)


def serve_health(server: flask.Flask) -> None:
    """Add `/healthz`, which answers `ok`."""

    @server.get("/healthz")
    def healthz() -> flask.Response:
        return flask.Response("ok\n", mimetype="text/plain")
