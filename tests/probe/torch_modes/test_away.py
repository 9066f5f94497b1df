"""Batches, losses, clipping, layers, experts and whole tensors of a device: the same numbers, and nobody waits."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe import watch  # noqa: E402  after it is known that torch is there
from mindscope.probe.hooks import batch_hooks as device_batches  # noqa: E402
from mindscope.probe.kernels.device import device_statistics as requested  # noqa: E402
from mindscope.probe.kernels.fingerprints import PLACES, RANGE, checksum_of  # noqa: E402
from mindscope.storage import open_store  # noqa: E402

from tests.probe.torch_modes.test_on_a_device import numbers, same  # noqa: E402

nn, functional = torch.nn, torch.nn.functional


class Experts(nn.Module):
    """Tokens, a router that sends each to the better of two experts, rectified units, and a way out."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.router = nn.Linear(8, 2)
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.act = nn.ReLU()
        self.top_k = 1
        self.out = nn.Linear(8, 3)

    def forward(self, tokens):
        h = self.embed(tokens)
        shares = self.router(h).softmax(-1)
        h = sum(shares[..., i : i + 1] * one(h) for i, one in enumerate(self.experts))
        return self.out(self.act(h)).mean(1)


def tokens_trained(*, passes=1, is_softmaxed=False):
    def train(watching):
        torch.manual_seed(0)
        net = Experts()
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        x, labels = torch.randint(0, 11, (16, 9)), torch.arange(16) % 3
        losses = []
        with watching(net, optimizer):
            for step in range(4):
                for _ in range(passes):
                    y = net(x if step % 2 else x.flip(0))
                    loss = functional.cross_entropy(y.softmax(-1) if is_softmaxed else y, labels)
                    loss.backward()
                    losses.append(loss.item())
                nn.utils.clip_grad_norm_(net.parameters(), 0.05)
                optimizer.step()
                optimizer.zero_grad()
                net.eval()
                with torch.no_grad():
                    net(x[:4])
                net.train()
        return losses, net

    return train


ALL = {"router": True, "activation/units": True, "batch": True, "clip": True, "input": True}


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("most", [1 << 20, 0], ids=["small inputs", "large inputs"])
def test_batches_experts_units_and_clipping_have_the_numbers_of_the_processor(
    alike, forced, brought, monkeypatch, passes, most
):
    monkeypatch.setattr(device_batches, "SMALL_BYTES", most)
    expected = alike(tokens_trained(passes=passes), config={"subjects": ALL})
    brought.clear()
    forced()
    found = alike(tokens_trained(passes=passes), config={"subjects": ALL})
    assert not found.faults()
    assert not brought
    seen = numbers(found)
    same(seen, numbers(expected))
    kinds = {key[2] for key in seen}
    wanted = {"batch", "batch/eval", "batch/tokens", "router", "router/expert", "activation/units", "clip/coefficient"}
    assert wanted | {"batch/checksum", "target/entropy"} <= kinds


@pytest.mark.parametrize("is_softmaxed", [False, True], ids=["logits", "a softmax too many"])
def test_the_domain_of_a_losss_input_is_told_of_the_step_that_has_it(alike, forced, brought, is_softmaxed):
    expected = alike(tokens_trained(is_softmaxed=is_softmaxed))
    brought.clear()
    forced()
    found = alike(tokens_trained(is_softmaxed=is_softmaxed))
    told = [[(e.step, e.micro_step, dict(e.data)) for e in one.events("loss_input")] for one in (found, expected)]
    assert told[0] == told[1] != []
    assert told[0][0][2]["domain"] == ("probabilities" if is_softmaxed else "logits")
    assert not brought


def test_statistics_on_request_wait_for_nobody(alike, forced, brought):
    forced()
    seen = alike(tokens_trained(), config={"statistics": ["kurtosis", "quantiles", "checksum", "sum", "abs_max"]})
    assert not brought
    assert not seen.faults()


def test_an_input_on_a_device_has_the_checksum_that_it_has_on_the_processor():
    base = torch.arange(-70.0, 70.0)
    several = [base, base[1:], base[:3], base.double()[1:], base.to(torch.uint8)[:13], base > 0, base.reshape(10, 14).T]
    several += [base.to(torch.bfloat16)[1:6], torch.empty(0), torch.tensor(3.5)]
    for one in several:
        mixed, tail = requested.checksum_on_device(one).tolist()
        held = one.contiguous()
        array = held.view(torch.int16).numpy() if held.dtype is torch.bfloat16 else held.numpy()
        assert (mixed + tail * PLACES[1] + array.nbytes) % RANGE == checksum_of(array)


def test_whole_tensors_are_the_same_bytes(forced, brought, tmp_path):
    config = {"dump": {"sites": ["*"], "subjects": ["activation", "activation_grad", "weight", "gradient", "input"]}}
    stored = []
    for number in range(2):
        with open_store(tmp_path / str(number)) as store:
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            with watch(net, optimizer, store=store, config=config) as monitor:
                brought.clear()
                for _ in range(2):
                    net(torch.ones(5, 3).T.contiguous().T).square().sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
            events = store.events(monitor.run.id, kind="tensor")
            keys = ("subject", "call", "digest", "dtype")
            stored.append({(e.step, e.site, *(e.data[key] for key in keys), tuple(e.data["shape"])) for e in events})
        if not number:
            forced()
    assert stored[0] == stored[1]
    assert len({subject for _, _, subject, *_ in stored[0]}) == 5
    assert not brought


def test_tensors_of_a_step_that_is_not_finished_are_stored_too(forced, tmp_path):
    forced()
    net = nn.Linear(3, 2)
    config = {"dump": {"sites": ["*"], "subjects": ["activation"]}}
    with open_store(tmp_path) as store:
        monitor = watch(net, torch.optim.SGD(net.parameters(), 0.1), store=store, config=config)
        net(torch.ones(1, 3))
        monitor.close()
        assert len(store.events(monitor.run.id, kind="tensor")) == 1


@pytest.mark.parametrize("how", ["skip_step", "stop"])
def test_an_update_that_depends_on_a_gradient_waits_for_its_numbers_and_for_no_tensor(forced, brought, how):
    forced()
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    ended = False
    with watch(net, optimizer, store=open_store("memory:"), config={"on_finding": [{"do": how}]}):
        for value in (1.0, float("nan")):
            optimizer.zero_grad()
            net(torch.full((4, 3), value)).sum().backward()
            try:
                optimizer.step()
            except Exception as error:  # noqa: BLE001  looked at below
                ended = "not finite" in str(error)
    assert net.weight.isfinite().all()
    assert ended is (how == "stop")
    assert not brought


@pytest.mark.parametrize("optimizers", [1, 2])
def test_gradients_that_were_left_are_told_of_a_device_as_well(alike, forced, brought, optimizers):
    def trained(watching):
        net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
        several = [torch.optim.SGD(part.parameters(), 0.01) for part in ([net] if optimizers == 1 else net)]
        losses = []
        with watching(net, several):
            for step in range(14):
                loss = net(torch.ones(5, 3)).square().mean()
                loss.backward()
                losses.append(loss.item())
                for one in several:
                    one.step()
                if step in (4, 9):
                    net.zero_grad(set_to_none=step == 9)
        return losses, net

    expected = alike(trained).events("gradient_before_forward")
    brought.clear()
    forced()
    found = alike(trained).events("gradient_before_forward")
    assert [(e.step, e.data["parameters"]) for e in found] == [(e.step, e.data["parameters"]) for e in expected]
    assert [e.step for e in found] == [1, 2, 3, 4, 6, 7, 8, 9, 11, 12]  # of ever so many the first ten
    assert [e.data["l2_norm"] for e in found] == pytest.approx([e.data["l2_norm"] for e in expected])
    assert not brought


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_the_noise_scale_and_the_factor_of_an_accumulation_are_told_of_a_device_as_well(alike, forced, brought, scale):
    def trained(watching):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        losses = []
        with watching(net, optimizer):
            for step in range(6):
                optimizer.zero_grad()
                for _ in range(2 if step < 4 else 3):
                    loss = functional.cross_entropy(net(torch.randn(16, 4)), torch.arange(16) % 3) * scale
                    loss.backward()
                    losses.append(loss.item())
                optimizer.step()
        return losses, net

    config = {"subjects": {"gradient_noise_scale": 1}, "accumulation_steps": 2}
    expected = alike(trained, config=config)
    brought.clear()
    forced()
    found = alike(trained, config=config)
    assert not found.faults()
    assert not brought
    told = [[(e.step, e.micro_step, dict(e.data)) for e in one.events("accumulation")] for one in (found, expected)]
    assert [(step, data["micro_batches"]) for step, _, data in told[0]] == [(0, 2), (4, 3)]
    assert [data.pop("factor") for _, _, data in told[0]] == pytest.approx([scale, scale])
    assert [data.pop("factor") for _, _, data in told[1]] == pytest.approx([scale, scale])
    assert told[0] == told[1]
    noise = [one.values("", "scalar/gradient_noise_scale") for one in (found, expected)]
    assert len(noise[0]) == 6
    assert noise[0] == pytest.approx(noise[1], nan_ok=True)


def test_spectra_and_directions_are_those_of_the_processor(alike, forced, brought):
    def trained(watching):
        net = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Flatten(), nn.Linear(6, 4), nn.Linear(4, 1).bfloat16())
        optimizer = torch.optim.AdamW(net.parameters(), 0.01)
        losses = []
        with watching(net, optimizer):
            for _ in range(33):
                optimizer.zero_grad()
                loss = net[3](net[:3](torch.randn(5, 2, 3)).bfloat16()).float().square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, net

    named = ("weight/spectrum", "update/direction", "gradient/signal")
    expected = alike(trained, config={"subjects": dict.fromkeys(named, 1), "record": "all"})
    brought.clear()
    forced()
    found = alike(trained, config={"subjects": dict.fromkeys(named, 1), "record": "all"})
    assert not found.faults()
    assert not brought
    mine, theirs = ({k: v for k, v in numbers(one).items() if k[2] in named} for one in (found, expected))
    assert mine.keys() == theirs.keys()
    assert {key[2] for key in mine} == set(named)
    assert {key[0] for key in mine if key[2] == "gradient/signal"} == {15, 31}
    for key, value in theirs.items():
        assert mine[key] == pytest.approx(value, rel=1e-4, abs=1e-6, nan_ok=True), key
