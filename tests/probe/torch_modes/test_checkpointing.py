"""Activations that are computed again in the backward pass are recorded once, with their gradients."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn
from torch.utils.checkpoint import checkpoint  # noqa: E402


class Checkpointed(nn.Module):
    """Two blocks, run again in the backward pass unless `mode` is None."""

    def __init__(self, mode):
        super().__init__()
        self.stem, self.mode = nn.Linear(4, 8), mode
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.2)) for _ in range(2))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x) if self.mode is None else checkpoint(block, x, use_reentrant=self.mode)
        return self.head(x)


def training(mode, *, forward=lambda model, x: model(x), accumulate=1):
    def train(watching):
        torch.manual_seed(0)
        model = Checkpointed(mode)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        losses = []
        with watching(model, optimizer):
            for _ in range(3):
                optimizer.zero_grad()
                for _ in range(accumulate):
                    loss = forward(model, torch.randn(5, 4, requires_grad=True)).square().mean()
                    loss.backward()
                    losses.append(loss.item())
                optimizer.step()
        return losses, model

    return train


MODES = pytest.mark.parametrize("mode", [True, False], ids=["reentrant", "without reentry"])


def everything(seen):
    """Every statistic of the activations and their gradients, by record, subject, site and call."""
    return {
        (record.step, record.micro_step, block.layout.subject, site, (block.layout.calls or [0] * 99)[row]): tuple(
            block.values[row]
        )
        for record in seen.records()
        for block in record.blocks
        for row, site in enumerate(block.layout.sites)
        if block.layout.subject in ("activation", "activation_grad") and (block.present is None or block.present[row])
    }


@MODES
@pytest.mark.parametrize("record", ["training", "gradients", "all"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_what_is_recorded_is_what_is_recorded_without_checkpointing(alike, mode, record, accumulate):
    config = {"record": record, "accumulation_steps": accumulate}
    plain = alike(training(None, accumulate=accumulate), config=config)
    seen = alike(training(mode, accumulate=accumulate), config=config)
    assert everything(seen) == everything(plain)
    assert seen.values("", "scalar/loss").tolist() == plain.values("", "scalar/loss").tolist()
    assert seen.faults() == []


@MODES
def test_a_model_that_is_checkpointed_whole_is_one_forward_of_a_step(alike, mode):
    plain = alike(training(None))
    seen = alike(training(None, forward=lambda model, x: checkpoint(model, x, use_reentrant=mode)))
    assert everything(seen) == everything(plain)
    assert seen.values("", "scalar/loss").tolist() == seen.losses
    assert [(record.step, record.micro_step) for record in seen.records()] == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.filterwarnings("ignore:None of the inputs:UserWarning")  # the outer's first forward has no gradients
@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_checkpoints_inside_of_checkpoints_are_recorded_once(alike, outer, inner):
    seen = alike(training(inner, forward=lambda model, x: checkpoint(model, x, use_reentrant=outer)))
    for site in ("stem", "blocks.0.0", "blocks.1", "head", ""):
        assert seen.calls(site) == 1, site
        assert seen.calls(site, subject="activation_grad") == 1, site
    assert len(seen.records()) == 3


def test_torchs_own_wrapper_leaves_the_sites_as_they_were(alike):
    wrapper = pytest.importorskip("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")

    def train(watching):
        torch.manual_seed(0)
        model = Checkpointed(None)
        model.blocks[0] = wrapper.checkpoint_wrapper(model.blocks[0])
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        with watching(model, optimizer):
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            optimizer.step()
        return [loss.item()], model

    seen = alike(train, config={"modules": ["blocks.0", "blocks.0.*"]})
    assert [seen.calls(site) for site in ("blocks.0", "blocks.0.0", "blocks.0.2")] == [1, 1, 1]
    assert len(seen.values("blocks.0.0.weight", "gradient/l2_norm")) == 1
    kinds = {module.site: module.kind for module in seen.store.structure(seen.run).modules}
    assert kinds["blocks.0"] == "Sequential"
