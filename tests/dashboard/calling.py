"""Calls a callback of the application as a browser does, through HTTP."""

from collections.abc import Mapping
from typing import Any

import dash
from flask.testing import FlaskClient


def call(
    app: dash.Dash,
    output: str,
    inputs: Mapping[str, object],
    state: Mapping[str, object] | None = None,
    *,
    client: FlaskClient | None = None,
) -> Any:
    """The answer of the first callback with that output; inputs and state by component id, or `id.property`."""
    name, spec = next((name, spec) for name, spec in app.callback_map.items() if output in name)
    ends = [dict(zip(("id", "property"), one.rsplit(".", 1), strict=True)) for one in name.strip(".").split("...")]
    given = {**(state or {}), **inputs}

    def value(end: Mapping[str, str]) -> object:
        return given.get(f"{end['id']}.{end['property']}", given.get(end["id"]))

    body = {
        "output": name,
        "outputs": ends if name.startswith("..") else ends[0],
        "inputs": [{**end, "value": value(end)} for end in spec["inputs"]],
        "state": [{**end, "value": value(end)} for end in spec["state"]],
        "changedPropIds": [f"{end['id']}.{end['property']}" for end in spec["inputs"] if end["id"] in inputs],
    }
    return (client or app.server.test_client()).post("/_dash-update-component", json=body)
