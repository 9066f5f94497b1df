"""The route that serves an image or a sound of a run; an address always has the same content, so browsers keep it."""

import io
from typing import Final
from urllib.parse import urlencode

import flask

from ..storage import RunNotFound, StoreError
from ..storage.attachments import media_type_of
from .queries.media_queries import MediaFile
from .queries.reader import Reader

_ROUTE: Final = "/media-file"
_YEAR_S: Final = 31_536_000


def media_link(run: str, file: MediaFile) -> str:
    """Return the address of a file of this run."""
    return f"{_ROUTE}?{urlencode({'run': run, 'rank': file.rank, 'file': file.digest})}"


def serve_media(server: flask.Flask, reader: Reader) -> None:
    """Add the route: 404 for an unknown run or file, 400 for a bad request; parts of a sound can be asked for."""

    @server.get(_ROUTE)
    def media() -> flask.Response:
        query = flask.request.args
        try:
            rank = int(query.get("rank", "0"))
            run, digest = reader.find(query.get("run", "")).id, query.get("file", "")
            content = reader.read(lambda store: store.attachment(run, digest, rank=rank))
        except (RunNotFound, StoreError) as error:
            return _refusal(str(error), 404)
        except ValueError as error:
            return _refusal(str(error), 400)
        kind = media_type_of(content)
        if kind is None:
            return _refusal("this file is neither an image nor a sound that browsers show", 404)
        answer = flask.send_file(io.BytesIO(content), mimetype=kind, conditional=True, etag=digest)
        answer.cache_control.no_cache = None
        answer.cache_control.private, answer.cache_control.max_age = True, _YEAR_S
        return answer


def _refusal(words: str, status: int) -> flask.Response:
    return flask.Response(words + "\n", status=status, mimetype="text/plain")
