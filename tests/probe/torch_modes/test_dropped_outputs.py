"""What a module makes of a value, and the value that goes on in its place."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402


class Sparse(nn.Module):
    """Keeps the largest part of a code, and returns what that costs."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 6)

    def forward(self, code):
        gate = self.gate(code).sigmoid()
        return code * gate, gate.mean()


class Summary(nn.Module):
    """A recurrent layer of the program: all states, and the last one."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(6, 6, batch_first=True)

    def forward(self, x):
        states, last = self.cell(x)
        return states, last[0]


class Coder(nn.Module):
    def __init__(self, use):
        super().__init__()
        self.use, self.down, self.up = use, nn.Linear(8, 6), nn.Linear(6, 8)
        self.sparse, self.summary = Sparse(), Summary()

    def forward(self, x):
        return self.use(self, self.down(x))


def _dropped(model, code):
    _, cost = model.sparse(code)
    return model.up(code).sum() + cost


def _used(model, code):
    kept, cost = model.sparse(code)
    return model.up(kept).sum() + cost


def _beside(model, code):
    kept, cost = model.sparse(code)
    return model.up(kept + code).sum() + cost


def _cost_alone(model, code):
    return model.sparse(code)[1] + model.up(code.detach()).sum()


def _neither(model, code):
    model.sparse(code)
    return model.up(code).sum()


def _last_state(model, code):
    _, last = model.summary(code.reshape(4, 3, 6))
    return model.up(last).sum()


@pytest.mark.parametrize(
    ("use", "expected"),
    [(_dropped, True), (_used, False), (_beside, False), (_cost_alone, False), (_neither, False), (_last_state, False)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_what_a_module_makes_is_used_where_its_input_is(told, use, expected):
    torch.manual_seed(0)
    model = Coder(use)
    found = told(model, lambda: model(torch.randn(12, 8)), rate=1e-4)
    assert ("outputs_reach_a_loss" in found.checks) == expected
    assert (found.causes.get("unused_value") == "warning") == expected
    if expected:
        assert found.checks["outputs_reach_a_loss"]["subject"] == "sparse"
