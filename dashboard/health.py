"""Whether the server answers, for whoever watches over it."""

import flask


def serve_health(server: flask.Flask) -> None:
    """Adds `/healthz`, which says `ok`."""

    @server.get("/healthz")
    def healthz() -> flask.Response:
        return flask.Response("ok\n", mimetype="text/plain")
