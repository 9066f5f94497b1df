"""Models that draw random numbers in evaluation mode, by mistake or because they are meant to."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.randn(2, 8)
        self.mean, self.rest = nn.Parameter(torch.randn(16, 8)), nn.Linear(8, 1)
    def forward(self, x):
        {forward}
model = Drawing()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(32, 2)
    answer = model(x)
    loss = functional.mse_loss(answer[0] if isinstance(answer, tuple) else answer, x.sin().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
_HIDDEN = "h = 3 * x @ {features}; h = torch.cat([h.sin(), h.cos()], 1) @ self.mean"
FIXED = _HIDDEN.format(features="self.features")
DRAWN = _HIDDEN.format(features="torch.randn(2, 8)")


@pytest.mark.parametrize(
    ("forward", "severity"),
    [
        (f"{FIXED}; return self.rest(h)", ""),
        (f"{DRAWN}; return self.rest(h)", "warning"),
        # a layer that is made in the forward
        (f"{FIXED}; return nn.Linear(8, 1)(h) + 0 * self.rest(h)", "warning"),
        (f"{FIXED}; h = h + 9 * torch.randn_like(h) * self.training; return self.rest(h)", ""),
        # weights of a Bayesian network
        (f"{FIXED}; return self.rest(h @ (self.mean + 9 * torch.randn_like(self.mean)).T[:, :8])", ""),
        # a noise for each sample, and a little one for all
        (f"{FIXED}; return self.rest(h + 9 * torch.randn(len(x), 8))", "info"),
        (f"{FIXED}; return self.rest(h + 0.01 * torch.randn(8))", ""),
        # a choice, and a latent variable
        (f"{FIXED}; return self.rest(functional.gumbel_softmax(h)) + 9 * torch.rand(1, 1)", ""),
        (f"{FIXED}; return self.rest(h + 9 * torch.randn(8)), h", ""),
    ],
)
def test_answers_that_hang_on_random_numbers_are_told(run_alike, forward, severity):
    store, found, _ = run_alike(TRAINING.format(forward=forward))
    told = [one.severity for one in store.findings(found.id) if one.cause == "wrong_train_eval_mode"]
    assert told == ([severity] if severity else [])
    events = [one.data for one in store.events(found.id, kind="check")]
    assert not [one for one in events if one["check"] == "model_can_be_called"]
