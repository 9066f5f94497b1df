"""What writes to weights between two steps is told, and is no part of their updates."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

STEPS = 6


def _trained(write: Any, watching: Any) -> tuple[list[float], Any]:
    """Train six steps; after the third `write` is called with the model."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), []
    with watching(model, optimizer):
        for step in range(STEPS):
            x = torch.randn(8, 4)
            loss = (model(x) - x[:, :1]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if step == 2:
                with torch.no_grad():
                    write(model)
    return losses, model


def test_one_element(alike):
    seen = alike(lambda watching: _trained(lambda model: model[0].weight.view(-1)[5].add_(4.0), watching))
    (event,) = seen.events("weights_written")
    (weight,) = event.data["weights"]
    assert event.step == 3
    assert (event.data["parameters"], event.data["of"]) == (1, 4)
    assert (weight["site"], weight["size"]) == ("0.weight", 64)
    assert weight["largest"] == pytest.approx(4.0)
    assert weight["change"] == pytest.approx(4.0)
    assert max(seen.values("0.weight", "update/max")) < 1.0


def test_a_part_of_the_model(alike):
    seen = alike(lambda watching: _trained(lambda model: [each.zero_() for each in model[0].parameters()], watching))
    (event,) = seen.events("weights_written")
    before = dict(zip(("0.weight", "0.bias"), _norms_before(seen, event.step), strict=True))
    for weight in event.data["weights"]:
        assert weight["change"] == pytest.approx(before[weight["site"]], rel=1e-6)
        assert weight["norm"] == pytest.approx(before[weight["site"]], rel=1e-6)


def _norms_before(seen: Any, step: int) -> list[float]:
    return [seen.values(site, "weight/l2_norm")[step - 1] for site in ("0.weight", "0.bias")]


def test_weights_that_are_put_back_were_not_written(alike):
    def swap(model: Any) -> None:
        kept = [each.clone() for each in model.parameters()]
        for each, before in zip(model.parameters(), kept, strict=True):
            each.zero_()
            each.copy_(before)

    assert not alike(lambda watching: _trained(swap, watching)).events("weights_written")


def test_a_training_that_writes_after_every_step_tells_of_it_a_bounded_number_of_times(alike):
    def clipped(watching: Any) -> tuple[list[float], Any]:
        model = torch.nn.Linear(4, 1)
        optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
        with watching(model, optimizer):
            for _ in range(50):
                loss = -model(torch.ones(8, 4)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                with torch.no_grad():
                    model.weight.clamp_(-0.05, 0.05)
        return losses, model

    assert len(alike(clipped).events("weights_written")) == 32
