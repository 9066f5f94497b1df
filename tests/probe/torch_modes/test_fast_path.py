"""An encoder evaluates watched to the same last bit as unwatched: torch's fast path is taken."""

import mindscope as ms
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


def _train(tmp_path, *, is_watched):
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    monitor = ms.watch(model, optimizer, store=tmp_path / "runs") if is_watched else None
    losses, outputs = [], []
    for _ in range(4):
        model.train()
        loss = functional.cross_entropy(model(torch.randn(8, 5, 16)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            outputs.append(model(torch.randn(8, 5, 16)).tolist())
    if monitor is not None:
        monitor.close()
    return losses, outputs, monitor, model


def test_a_watched_encoder_evaluates_as_an_unwatched_one(tmp_path):
    losses, outputs, _, _ = _train(tmp_path, is_watched=False)
    watched_losses, watched_outputs, _, model = _train(tmp_path, is_watched=True)
    assert (losses, outputs) == (watched_losses, watched_outputs)
    assert not any(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def test_every_training_step_has_its_activations_after_an_evaluation(tmp_path):
    _, _, monitor, _ = _train(tmp_path, is_watched=True)
    series = ms.open_store(tmp_path / "runs").series(monitor.run.id, "encoder.layers.0.linear1", "activation/l2_norm")
    assert len(series.steps) == 4
