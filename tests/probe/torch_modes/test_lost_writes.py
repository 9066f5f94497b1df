"""Messages that are written to a node instead of being added up, and writes that lose nothing."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.probe.checks.lost_writes import repeated_writes_are_added_up  # noqa: E402
from mindscope.probe.checks.model_call import call_of  # noqa: E402
from mindscope.probe.checks.model_probe import ModelProbe  # noqa: E402


class _Layer(torch.nn.Module):
    def __init__(self, gather):
        super().__init__()
        self.gather, self.linear = gather, torch.nn.Linear(4, 4)

    def forward(self, x, source, target):
        return self.gather(self.linear(x), source, target)


def _outcome(gather, source=(0, 1, 2, 3, 4, 0), target=(1, 1, 1, 0, 0, 2)):
    torch.manual_seed(0)
    arguments = (torch.randn(5, 4), torch.tensor(source), torch.tensor(target))
    model = _Layer(gather)
    return repeated_writes_are_added_up(ModelProbe(model, call_of(model, arguments, {})))


def _added_by_index(x, source, target):
    total = torch.zeros_like(x)
    total[target] += x[source]
    return total


def _assigned_sum(x, source, target):
    edges = torch.stack([source, target])
    total = torch.zeros_like(x)
    total[edges[1]] = total[edges[1]] + x[edges[0]]
    return total


def _columns(x, source, target):
    total = torch.zeros(4, 5)
    total[:, target] += x.t()[:, source]
    return total.t()


def _counted(x, source, target):
    count = torch.zeros(5)
    count[target] += 1
    return x / count.clamp(min=1)[:, None]


def _scattered(x, source, target):
    return torch.zeros_like(x).scatter(0, target[:, None].expand(-1, 4), x[source])


def _copied(x, source, target):
    return torch.zeros_like(x).index_copy(0, target, x[source])


def _pairs(x, source, target):
    total = torch.zeros(5, 5)
    total[target, target] += x[source, 0]
    return total


_LOSING = (_added_by_index, _assigned_sum, _columns, _counted, _scattered, _copied, _pairs)


@pytest.mark.parametrize("gather", _LOSING, ids=lambda one: one.__name__)
def test_values_for_one_place_that_replace_each_other_are_told(gather):
    result = _outcome(gather)
    assert result.outcome == "broken"
    assert "test_lost_writes.py:" in result.counterexample
    assert result.numbers["places"] == (8.0 if gather is _scattered else 2.0)  # two rows of four elements


def _index_add(x, source, target):
    return torch.zeros_like(x).index_add(0, target, x[source])


def _accumulated(x, source, target):
    return torch.zeros_like(x).index_put((target,), x[source], accumulate=True)


def _same_values(x, source, target):
    total = torch.zeros_like(x)
    total[target] = total[target] + x.mean(0)
    return total


def _replaced(x, source, target):
    total = torch.zeros_like(x)
    total[target] = x[source]
    return total


def _constants(x, source, target):
    return x * torch.zeros_like(x).scatter(0, target[:, None].expand(-1, 4), 1.0)


def _masked(x, source, target):
    total = x.clone()
    total[x > 0] += 1.0
    return total


_KEEPING = (_index_add, _accumulated, _same_values, _replaced, _constants, _masked)


@pytest.mark.parametrize("gather", _KEEPING, ids=lambda one: one.__name__)
def test_writes_that_lose_nothing_that_was_to_be_added_are_left_alone(gather):
    result = _outcome(gather)
    assert result is None or result.outcome == "held"


@pytest.mark.parametrize("gather", [_added_by_index, _scattered], ids=lambda one: one.__name__)
def test_places_that_are_named_once_and_one_place_for_padding_lose_nothing(gather):
    assert _outcome(gather, target=(0, 1, 2, 3, 4, 4)).outcome == "held"
    assert _outcome(gather, source=(0, 1, 2), target=(4, 2, 0)).outcome == "held"
