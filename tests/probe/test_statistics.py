"""Statistics on request stand behind the ten, of every subject, in both frameworks, and do not touch the training."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import Adam
from mindscope.probe import ConfigError, load_config, watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

EVERYTHING = ["sum", "abs_max", "kurtosis", "checksum", "quantiles"]
ALWAYS = {"activation", "activation_grad", "gradient", "weight", "update", "input", "input_grad"}
SUBJECTS = {name: 1 for name in ("input", "input_grad", "gradient/unreduced")}


def engine(config, steps=3):
    """Losses, records and the last state of an engine training."""
    net = nn.SequentialCell(nn.Dense(4, 5, key=Key(1)), nn.Tanh(), nn.Dense(5, 2, key=Key(2))).set_train()
    optimizer = Adam(net.trainable_params(), 0.1)
    x = Tensor(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32), requires_grad=True)

    def step():
        loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.numpy().tobytes()

    return trained(net, optimizer, step, config, steps), {k: p.numpy() for k, p in net.parameters_and_names()}


def pytorch(config, steps=3, dtype=torch.float32):
    """The same of a PyTorch one."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).to(dtype)
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    x = torch.randn(6, 4).to(dtype).requires_grad_()

    def step():
        optimizer.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    return trained(net, optimizer, step, config, steps), {
        k: p.detach().float().numpy() for k, p in net.named_parameters()
    }


def trained(net, optimizer, step, config, steps):
    """Losses, and the last step's numbers as (subject, site) -> {statistic: value}."""
    if config is None:
        return [step() for _ in range(steps)], {}
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, config=config) as monitor:
            losses = [step() for _ in range(steps)]
        *_, record = store.replay(monitor.run.id)
        assert not [event for event in record.events if event.kind == "monitor_fault"]
    return losses, {
        (block.layout.subject, site): dict(zip(block.layout.statistics, row.tolist(), strict=True))
        for block in record.blocks
        for site, row in zip(block.layout.sites, block.values, strict=True)
    }


@pytest.mark.parametrize("training", [engine, pytorch])
def test_every_subject_has_them_and_the_losses_keep_their_bits(training):
    (plain, _), _ = training(None)
    (losses, found), weights = training({"statistics": EVERYTHING, "subjects": SUBJECTS})
    assert losses == plain
    subjects = {subject for subject, _ in found}
    assert ALWAYS | {"gradient/unreduced"} <= subjects
    assert any(subject.startswith("optimizer/") for subject in subjects)
    for numbers in found.values():
        assert {"sum", "abs_max", "kurtosis", "checksum", "q01", "q50", "q99"} <= numbers.keys()
        assert numbers["sum"] == pytest.approx(numbers["mean"] * numbers["size"], rel=1e-4, abs=1e-5)
        assert numbers["abs_max"] == max(abs(numbers["min"]), abs(numbers["max"]))
        assert numbers["checksum"] == int(numbers["checksum"])
    for site, weight in weights.items():
        numbers = found["weight", site]
        away = weight.astype(np.float64) - weight.mean(dtype=np.float64)
        assert numbers["kurtosis"] == pytest.approx((away**4).mean() / (away**2).mean() ** 2, rel=1e-5)
        assert numbers["q50"] == pytest.approx(np.quantile(weight, 0.5, method="lower"), rel=1 / 128)


def test_of_an_update_they_are_those_of_what_moved():
    _, first = pytorch({"statistics": ["sum", "abs_max"]}, steps=2)
    (_, after), second = pytorch({"statistics": ["sum", "abs_max"]}, steps=3)
    for site in first:
        moved = second[site] - first[site]
        assert after["update", site]["sum"] == pytest.approx(moved.sum(dtype=np.float64), rel=1e-5, abs=1e-7)
        assert after["update", site]["abs_max"] == np.abs(moved).max()
        assert after["update", site]["ratio_to_weight"] == pytest.approx(
            np.linalg.norm(moved) / np.linalg.norm(first[site]), rel=1e-5
        )


def test_half_precision_weights_have_them_too():
    (_, found), weights = pytorch({"statistics": ["abs_max", "quantiles"]}, dtype=torch.bfloat16)
    for site, weight in weights.items():
        assert found["weight", site]["abs_max"] == np.abs(weight).max()


def test_equal_tensors_have_equal_checksums_wherever_they_are_seen():
    (_, found), _ = engine({"statistics": ["checksum"], "subjects": SUBJECTS})
    assert found["input", "1"]["checksum"] == found["activation", "0"]["checksum"]
    assert found["gradient", "0.weight"]["checksum"] == found["gradient/unreduced", "0.weight"]["checksum"]
    assert found["input", "2"]["checksum"] != found["activation", "0"]["checksum"]


def test_without_a_request_a_row_has_ten_and_an_unknown_name_is_an_error():
    (_, found), _ = engine({})
    assert {len(numbers) for (subject, _), numbers in found.items() if subject != "update"} == {10}
    with pytest.raises(ConfigError, match="statistics"):
        load_config(statistics=["kurtosi"])
