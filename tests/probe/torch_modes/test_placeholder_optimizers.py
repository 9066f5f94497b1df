"""An optimizer over one placeholder, which no loss uses, is no trouble: nothing is worse than a question."""

import logging

import pytest
from mindscope.insight.diagnosis import diagnose

pytest.importorskip("torch", reason="PyTorch is not installed")

TEXT = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(8, 6, 1)
        self.placeholder = nn.Parameter(torch.zeros(1))
    def forward(self, x):
        return self.net(x)
model = Model()
placeholder = model.placeholder if {is_inside} else nn.Parameter(torch.zeros(1))
dummy = torch.optim.SGD([placeholder], 0.1)
optimizer = torch.optim.SGD(model.net.parameters(), 0.05) if {has_optimizer} else None
trained, truth = [model], torch.randn(8, 1)
for _ in range(steps):
    x = torch.randn(16, 8)
    loss = functional.mse_loss(model(x), x @ truth)
    model.zero_grad()
    loss.backward()
    losses.append(loss.item())
    if optimizer:
        dummy.step()
        optimizer.step()
    else:
        for p in model.net.parameters():
            p.data -= 0.05 * p.grad
"""


@pytest.mark.parametrize(
    ("is_inside", "has_optimizer"),
    [(True, True), (False, True), (True, False), (False, False)],
    ids=["of the model", "beside the model", "of the model updated by hand", "beside the model updated by hand"],
)
def test_a_placeholder_is_a_question_at_most(run_alike, caplog, is_inside, has_optimizer):
    with caplog.at_level(logging.WARNING):
        store, found, losses = run_alike(TEXT.format(is_inside=is_inside, has_optimizer=has_optimizer), steps=30)
    assert not caplog.text
    findings = diagnose(store, found.id).findings
    assert {one.severity for one in findings} <= {"info"}
    assert not any("placeholder of placeholder" in one.explanation for one in findings)
    assert len(store.series(found.id, "", "scalar/loss").values) >= len(losses) - 3
