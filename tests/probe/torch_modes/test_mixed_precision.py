"""Loss scaling and autocast: steps that overflow are recorded as skipped, gradients without the scale."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn


def training(fused, *, unscale=False, overflow=1, models=1):
    def train(watching):
        torch.manual_seed(0)
        nets = nn.ModuleList(nn.Linear(4, 3) for _ in range(models))
        optimizers = [torch.optim.AdamW(net.parameters(), 1e-2, fused=fused) for net in nets]
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        losses, norms = [], []
        with watching(nets, optimizers):
            for step in range(4):
                for net, optimizer in zip(nets, optimizers, strict=True):
                    optimizer.zero_grad()
                    loss = net(torch.randn(6, 4)).square().mean()
                    scaler.scale(loss).backward()
                    if step == overflow and net is nets[0]:
                        net.weight.grad[0, 0] = torch.inf
                    if unscale:
                        scaler.unscale_(optimizer)
                    norms.append(net.bias.grad.norm().item() / (1.0 if unscale else scaler.get_scale()))
                    scaler.step(optimizer)
                    losses.append(loss.item())
                scaler.update()
        train.norms = norms
        return losses, nets

    return train


@pytest.mark.parametrize("unscale", [False, True], ids=["scaled", "unscaled"])
@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_an_overflow_is_a_skipped_step_and_gradients_are_without_the_scale(alike, fused, unscale):
    train = training(fused, unscale=unscale)
    seen = alike(train)
    assert [record.skipped for record in seen.records()] == [False, True, False, False]
    (event,) = seen.events("step_skipped")
    assert (event.step, event.data["loss_scale"]) == (1, 1024.0)
    np.testing.assert_allclose(seen.values("0.bias", "gradient/l2_norm"), train.norms, rtol=1e-5)
    assert seen.values("0.weight", "gradient/pos_infs").tolist() == [0, 1, 0, 0]
    assert seen.values("0.weight", "update/l2_norm")[1] == 0.0
    assert seen.values("", "scalar/loss").tolist() == seen.losses


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_a_step_of_two_networks_stays_one_step_when_one_of_them_overflows(alike, fused):
    seen = alike(training(fused, models=2))
    assert [(record.step, record.skipped) for record in seen.records()] == [
        (0, False),
        (1, True),
        (2, False),
        (3, False),
    ]
    for site in ("0.weight", "1.weight"):
        assert len(seen.values(site, "gradient/l2_norm")) == 4
    assert seen.values("1.weight", "update/l2_norm")[1] > 0


def test_autocast_to_bfloat16_records_activations_as_they_are(alike):
    def train(watching):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        losses, stds = [], []
        net[0].register_forward_hook(lambda _m, _i, output: stds.append(output.detach().double().std(correction=0)))
        with watching(net, optimizer):
            for _ in range(3):
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16):
                    loss = net(torch.randn(6, 4)).float().square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        train.stds = stds
        return losses, net

    seen = alike(train)
    np.testing.assert_allclose(seen.values("0", "activation/std"), [float(one) for one in train.stds], rtol=1e-5)
    assert len(seen.values("2", "activation_grad/l2_norm")) == 3
    assert seen.faults() == []
