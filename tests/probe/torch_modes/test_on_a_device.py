"""The way of tensors on a device: promised in the step, there some time later, the same numbers as on the processor.

Tensors of the processor are sent on that way here, so that it is tested where there is no device. The last tests need
one.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe import watch  # noqa: E402  after it is known that torch is there
from mindscope.probe.kernels.device import DeviceQueue  # noqa: E402
from mindscope.probe.kernels.device import device_queue as batches  # noqa: E402
from mindscope.storage import open_store  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
#: What is measured with a clock, or of memory, is never the same twice.
_UNSTEADY = ("step_seconds", "throughput", "memory", "time")


def trained(
    *, steps=4, inplace=False, scaled=False, accumulate=1, optimizers=1, device="cpu", wide=False, clipped=False
):
    def train(watching):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=inplace), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
        net = (net.double() if wide else net).to(device)
        x, labels = torch.randn(10, 6, dtype=torch.float64 if wide else None).to(device), torch.arange(10) % 3
        labels = labels.to(device)
        parts = [net[:2], net[2:]] if optimizers == 2 else [net]
        several = [torch.optim.AdamW(part.parameters(), 1e-2) for part in parts]
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=scaled)
        losses = []
        with watching(net, several if optimizers == 2 else several[0]):
            for _ in range(steps):
                for _ in range(accumulate):
                    loss = functional.cross_entropy(net(x), labels)
                    scaler.scale(loss).backward()
                    losses.append(loss.detach())
                for one in several:
                    scaler.step(one)
                scaler.update()
                for one in several:
                    one.zero_grad()
                if clipped:
                    with torch.no_grad():
                        net[2].weight.clamp_(-0.1, 0.1)
        return [one.item() for one in losses], net.cpu()

    return train


def numbers(seen):
    """Every number by its identity, but for those of clocks and of memory."""
    found = {}
    for record in seen.records():
        at = (record.step, record.micro_step)
        found |= {(*at, name): value for name, value in record.scalars.items() if not name.startswith(_UNSTEADY)}
        for block in record.blocks:
            layout = block.layout
            present = np.ones(len(layout.sites), bool) if block.present is None else block.present
            calls = layout.calls or (0,) * len(layout.sites)
            for site, call, row, is_there in zip(layout.sites, calls, block.values, present, strict=True):
                if is_there:
                    named = zip(layout.statistics, row.tolist(), strict=True)
                    found |= {(*at, layout.subject, site, call, name): value for name, value in named}
    return found


def same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-12, nan_ok=True), key


@pytest.mark.parametrize(
    "options",
    [{}, {"accumulate": 2}, {"optimizers": 2}, {"scaled": True}, {"wide": True}, {"clipped": True}],
    ids=["plain", "micro-steps", "two optimizers", "loss scale", "float64", "weights clipped"],
)
@pytest.mark.parametrize("kept", [{}, {"flight_recorder": {"steps": 2}, "every": 2}], ids=["every step", "in flight"])
def test_numbers_of_a_device_are_those_of_the_processor(alike, forced, options, kept):
    config = {"subjects": {"gradient/unreduced": True, "input": True, "batch": False}} | kept
    expected = alike(trained(**options), config=config)
    forced()
    found = alike(trained(**options), config=config)
    assert not found.faults()
    same(numbers(found), numbers(expected))
    began = [
        [(e.site, e.step, round(e.data["std"], 12)) for e in one.events("initial_weight")] for one in (found, expected)
    ]
    assert began[0] == began[1] != []


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_histograms_of_a_device_have_the_same_edges_and_counts(alike, forced, scale):
    config = {"histograms": {"every": 1, "subjects": ["activation", "weight", "gradient"], "bins": 8, "scale": scale}}
    expected = alike(trained(steps=2), config=config)
    forced()
    found = alike(trained(steps=2), config=config)
    both = [
        {(h.subject, h.site, h.call, record.step): h for record in seen.records() for h in record.histograms}
        for seen in (found, expected)
    ]
    assert both[0].keys() == both[1].keys() != set()
    for key, one in both[1].items():
        np.testing.assert_allclose(both[0][key].edges, one.edges, rtol=1e-12)
        assert both[0][key].counts.tolist() == one.counts.tolist(), key


def test_a_record_leaves_when_its_numbers_are_there_and_keeps_its_step(alike, forced, monkeypatch):
    forced()
    asked = []

    def is_ready(_arrival):
        asked.append(True)
        return len(asked) % 5 == 0

    monkeypatch.setattr(batches.PendingBatch, "is_ready", is_ready)
    seen = alike(trained(steps=9))
    assert len(asked) > 9
    assert [record.step for record in seen.records()] == list(range(9))
    assert seen.values("", "scalar/loss").tolist() == pytest.approx(seen.losses)


def test_what_is_changed_before_it_is_read_is_absent_once_and_read_at_once_from_then_on(alike, forced):
    expected = alike(trained(inplace=True))
    forced()
    found = numbers(alike(trained(inplace=True)))
    missing = {key[:5] for key in numbers(expected) if key not in found}
    assert missing == {(0, 0, "activation", "0", 0)}
    same(found, {key: value for key, value in numbers(expected).items() if key in found})


def test_statistics_on_request_are_those_of_the_processor(alike, forced):
    config = {"statistics": ["kurtosis", "quantiles", "checksum"]}
    expected = alike(trained(steps=2), config=config)
    forced()
    same(numbers(alike(trained(steps=2), config=config)), numbers(expected))


def test_a_gradient_that_decides_over_an_update_is_known_before_it(forced):
    forced()
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with watch(net, optimizer, store=open_store("memory:"), config={"on_finding": [{"do": "skip_step"}]}):
        net(torch.full((4, 3), float("nan"))).sum().backward()
        optimizer.step()
    assert net.weight.isfinite().all()


def test_a_device_that_fails_costs_observations_and_says_so_once(alike, forced, monkeypatch):
    forced()

    def lose(_arrival):
        raise RuntimeError("the device was lost")

    monkeypatch.setattr(batches.PendingBatch, "take", lose)
    seen = alike(trained(steps=5))
    assert [fault["collector"] for fault in seen.faults()] == ["device"]
    assert [record.step for record in seen.records()] == list(range(5))
    assert len(seen.values("0", "activation/mean")) >= 3  # copied to the host from then on


def test_a_batch_is_launched_when_it_holds_enough(monkeypatch):
    monkeypatch.setattr(batches, "_MOST_BYTES", 4000)
    queue = DeviceQueue()
    tensors = [torch.full((250,), float(number)) for number in range(9)]
    promises = [queue.add(one) for one in tensors]
    arrivals = queue.launch()
    assert len(arrivals) == 3
    for arrival in arrivals:
        arrival.take()
    assert [promise.row[1] for promise in promises] == list(range(9))


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU: none is here")


@pytest.mark.parametrize("clearing", ["to none", "in place", "never"])
def test_networks_that_take_turns_clear_their_gradients_before_their_own_passes(alike, forced, clearing):
    """As the first of two passes begins a step, the second network still holds the gradients of its last update."""
    forced()

    def train(watching):
        torch.manual_seed(0)
        maker, judge = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        both = nn.ModuleList([maker, judge])
        steps = [torch.optim.SGD(one.parameters(), 1e-3) for one in (maker, judge)]
        losses = []

        def clear(optimizer):
            if clearing != "never":
                optimizer.zero_grad(set_to_none=clearing == "to none")

        with watching(both, steps):
            for _ in range(8):
                judge.requires_grad_(True)
                made = maker(torch.randn(5, 4)).detach()
                loss = functional.softplus(judge(made)).mean() + functional.softplus(-judge(torch.randn(5, 6))).mean()
                clear(steps[1])
                loss.backward()
                steps[1].step()
                judge.requires_grad_(False)
                clear(steps[0])
                fooled = functional.softplus(-judge(maker(torch.randn(5, 4)))).mean()
                fooled.backward()
                steps[0].step()
                losses += [loss.item(), fooled.item()]
        return losses, both

    seen = alike(train)
    assert not seen.faults()
    assert bool(seen.events("gradient_before_forward")) == (clearing == "never")


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_on_a_gpu_waits_for_it_no_more_often_than_without_monitor(alike):
    def waits(watching):
        torch.cuda.synchronize()
        net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)).cuda()
        optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
        x, labels = torch.randn(32, 64, device="cuda"), torch.arange(32, device="cuda") % 3
        with watching(net, optimizer):
            for step in range(8):
                if step == 3:  # kernels are compiled, and the first weights noted
                    torch.cuda.set_sync_debug_mode("error")
                optimizer.zero_grad()
                functional.cross_entropy(net(x), labels).backward()
                optimizer.step()
            torch.cuda.set_sync_debug_mode("default")
        return [], net.cpu()

    seen = alike(waits)
    assert not seen.faults()
    assert len(seen.values("0", "activation/l2_norm")) == 8


@needs_cuda
def test_numbers_of_a_gpu_are_those_of_the_processor(alike):
    found, expected = numbers(alike(trained(device="cuda"))), numbers(alike(trained()))
    for key, value in expected.items():
        if key[2] in ("activation", "gradient") and key[-1] in ("l2_norm", "mean", "zeros"):
            assert found[key] == pytest.approx(value, rel=1e-3, abs=1e-5), key
