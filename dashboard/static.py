"""Scripts, styles and icons: kept by the browser for as long as their name stands for them, sent in few bytes."""

import gzip
import threading
import zlib
from typing import Final

import flask
import zstandard

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
    """Lets the answers of the server that are files travel and stay in the browser as well as they can."""
    packed: dict[tuple[str, str, int], bytes] = {}
    lock = threading.Lock()

    @server.after_request
    def send(answer: flask.Response) -> flask.Response:
        if answer.status_code != 200 or not flask.request.path.startswith(("/assets/", "/_dash-component-suites/")):
            return answer
        if answer.cache_control.max_age is None:
            _keep(answer)
        coding = flask.request.accept_encodings.best_match(_CODINGS)
        if answer.mimetype in _KINDS and coding is not None and flask.request.method == "GET":
            _pack(answer, coding)
        return answer

    def _pack(answer: flask.Response, coding: str) -> None:
        answer.direct_passthrough = False
        whole = answer.get_data()
        if len(whole) < _SHORT:
            return
        key = flask.request.path, coding, zlib.crc32(whole)
        with lock:
            found = packed.get(key)
            if found is None:
                found = packed[key] = _packed(whole, coding)
        answer.set_data(found)
        answer.headers["Content-Encoding"] = coding
        answer.vary.add("Accept-Encoding")


def _keep(answer: flask.Response) -> None:
    """A file whose address says its version never changes; another may, after the next upgrade."""
    says_version = bool({"m", "v"} & set(flask.request.args))
    answer.cache_control.no_cache = None
    answer.cache_control.max_age = _YEAR_S if says_version else _HOUR_S


def _packed(whole: bytes, coding: str) -> bytes:
    level = _LEVELS[coding]
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=level).compress(whole)
    return gzip.compress(whole, level, mtime=0)
