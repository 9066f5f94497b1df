"""Old weights are told from others, a wrong product from a rounded one, on the host without drawing a number."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.adapters.torch.torch_recomputation import Recomputation, _excess  # noqa: E402
from mindscope.probe.adapters.torch.torch_weight_versions import WeightVersions  # noqa: E402


class Recorder:
    """Keeps the events; everything lies on the host."""

    def __init__(self):
        self.events, self.current = [], SimpleNamespace(step=0)

    def event(self, kind, site, **data):
        self.events.append((kind, site, data))


def told(pairs):
    """The events of a training that uses and steps these versions of its two weights, every step looked at."""
    recorder, now = Recorder(), []

    def checksums():
        return np.array([float(now[0]), 7.0])

    versions = WeightVersions(recorder, checksums)
    for used, stepped in pairs:
        now[:] = [used]
        versions.forward_begins()
        now[:] = [stepped]
        versions.before_step(("a", "b"), checksums)
        recorder.current.step += 1
    return recorder.events


def test_weights_of_an_earlier_step_are_told_once_with_their_site():
    ((kind, _, data),) = told([(1, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    assert (kind, data["sites"], data["steps_behind"], data["at"]) == ("weights_stale", ["a"], 1, 3)


def test_present_quantized_and_once_replaced_weights_are_not_told():
    assert told([(step, step) for step in range(9)]) == []
    assert told([(step + 0.5, step) for step in range(9)]) == []
    assert told([(1, 1), (1, 2), (3, 3), (4, 4), (4, 5), (6, 6)]) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 5), (700, 900), (1, 4096)])
def test_a_sound_product_is_far_within_what_is_allowed(dtype, shape):
    torch.manual_seed(0)
    layer = torch.nn.Linear(*shape, dtype=dtype)
    assert max(float(_excess(layer, seed)) for seed in range(20)) < 0.6


def test_a_wrong_product_is_told_with_its_layer_and_the_generators_rest(monkeypatch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    recorder, multiply = Recorder(), torch.nn.functional.linear
    recomputation = Recomputation(recorder, model)
    before = torch.get_rng_state()
    for step in range(8):
        recomputation.look(step, lambda work: work())
    assert recorder.events == []
    counts = itertools.count()

    def wrong(x, weight, bias=None):
        out = multiply(x, weight, bias)
        return out + 0.5 * (next(counts) % 2 == 0) if weight is model[2].weight else out

    monkeypatch.setattr(torch.nn.functional, "linear", wrong)
    for step in range(8):
        recomputation.look(step, lambda work: work())
    assert {site for _, site, _ in recorder.events} == {"2"}
    assert 0 < recorder.events[0][2]["wrong_again"] < recorder.events[0][2]["again"]
    assert torch.equal(torch.get_rng_state(), before)
