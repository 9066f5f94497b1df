"""A run of a thousand layers: what is sent stays bounded, and a spike of one step is in it."""

import base64
import json

import numpy as np
import pytest
from mindscope.dashboard import create_app
from mindscope.storage import Block, Layout, ModuleInfo, StepRecord, Structure, open_store

from .calling import call

SITES = tuple(f"block.{at}" for at in range(1000))
STEPS, SPIKE_STEP, SPIKE_SITE, HEIGHT = 1200, 777, 613, 25.0


@pytest.fixture(scope="module")
def large():
    """The application over the run, and the run's id."""
    layout = Layout("activation", SITES, ("l2_norm",), ("float32",))
    values = np.exp(np.random.default_rng(0).normal(0, 0.1, (STEPS, len(SITES))))
    values[SPIKE_STEP, SPIKE_SITE] = HEIGHT
    with open_store("memory:") as store:
        writer = store.begin_run("large")
        writer.write_structure(Structure(tuple(ModuleInfo(site, "Dense", at) for at, site in enumerate(SITES))))
        writer.write(
            [
                StepRecord(step, float(step), blocks=(Block(layout, row[:, None]),), scalars={"loss": 1.0})
                for step, row in enumerate(values)
            ]
        )
        writer.close()
        yield create_app(store), writer.run.id


@pytest.mark.parametrize("view", ["raw", "deviation"])
def test_the_map_of_a_thousand_layers_is_below_two_megabytes_and_shows_the_spike(large, view):
    app, run = large
    asked = {"live-maps": ["activation/l2_norm"], "live-view": view, "live-beat": 0}
    answer = call(app, "live-heat.figure", asked, {"live-run": run, "scheme": "light"})
    assert len(answer.data) < 2_000_000
    (trace,) = [one for one in answer.get_json()["response"]["live-heat"]["figure"]["data"] if one.get("meta")]
    cells = _array(trace["z"])
    row, column = np.unravel_index(int(np.nanargmax(cells)), cells.shape)
    assert row == SPIKE_SITE
    assert abs(_array(trace["x"])[column] - SPIKE_STEP) <= 2 * STEPS / cells.shape[1]


def test_a_series_is_sent_in_a_thousand_points_and_keeps_the_spike(large):
    app, run = large
    asked = {"tensor-metric": "activation/l2_norm", "tensor-site": SITES[SPIKE_SITE], "tensor-axis": "step"}
    usual = {"tensor-log": "none", "tensor-over": "nothing", "tensor-span": ""}
    answer = call(app, "tensor-body.children", {**asked, **usual}, {"tensor-run": run, "scheme": "light"})
    curves = list(_curves(answer.get_json()))
    assert max(len(curve) for curve in curves) <= 1000
    assert max(float(np.nanmax(curve)) for curve in curves) == HEIGHT


def _array(sent):
    """An array as it was sent: packed or as lists."""
    if not isinstance(sent, dict):
        return np.array(sent, dtype=np.float64)
    flat = np.frombuffer(base64.b64decode(sent["bdata"]), dtype=sent["dtype"])
    return flat.reshape([int(size) for size in str(sent["shape"]).split(",")]) if "shape" in sent else flat


def _curves(part):
    """The `y` of every trace that has steps."""
    if isinstance(part, dict):
        if part.get("type") == "scatter" and isinstance(part.get("y"), dict):
            yield _array(part["y"])
        for value in part.values():
            yield from _curves(value)
    elif isinstance(part, list):
        for value in part:
            yield from _curves(value)


def test_the_whole_page_of_the_run_is_laid_out_in_bounds(large):
    app, run = large
    answer = call(app, "content.children", {"url": f"/run?run={run}", "scheme": "light"}, {"shown": None})
    assert len(json.dumps(answer.get_json())) < 2_000_000
