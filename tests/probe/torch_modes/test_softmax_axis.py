"""The axis of a softmax and that of the classes, however the loss is written."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.probe.checks.loss_graph import nodes_of_loss  # noqa: E402
from mindscope.probe.checks.softmax_axis import softmax_is_over_the_classes  # noqa: E402

functional = torch.nn.functional
_LABELS = torch.arange(12) % 5
_ONE_HOT = functional.one_hot(_LABELS, 5).float()


def _result(make, shape=(12, 5)):
    torch.manual_seed(0)
    logits = torch.nn.Linear(6, shape[-1])(torch.randn(*shape[:-1], 6))
    given, loss = make(logits)
    losses = [("nll_loss", given)] if given is not None else []
    result = softmax_is_over_the_classes(nodes_of_loss(loss, [logits]), losses)
    return None if result is None else result.outcome


@pytest.mark.parametrize(("dim", "outcome"), [(1, "held"), (-1, "held"), (0, "broken")])
def test_the_axis_before_a_loss_of_labels(dim, outcome):
    def nll(logits):
        given = logits.log_softmax(dim)
        return given, functional.nll_loss(given, _LABELS)

    def logarithm(logits):
        given = torch.log(logits.softmax(dim) + 1e-8)
        return given, functional.nll_loss(given, _LABELS)

    def picked(logits):
        return None, -logits.log_softmax(dim).gather(1, _LABELS[:, None]).mean()

    def shares(logits):
        return None, -(_ONE_HOT * torch.log(logits.softmax(dim))).sum(1).mean()

    assert [_result(make) for make in (nll, logarithm, picked, shares)] == [outcome] * 4


@pytest.mark.parametrize(("dim", "outcome"), [(1, "held"), (0, "broken")])
@pytest.mark.parametrize("rows", [torch.tensor([0, 2, 3, 7]), torch.arange(12) % 3 == 0, slice(4)], ids=str)
def test_the_nodes_of_a_graph_that_have_labels(dim, outcome, rows):
    def loss(logits):
        given = logits.log_softmax(dim)[rows]
        return given, functional.nll_loss(given, _LABELS[rows])

    assert _result(loss) == outcome


@pytest.mark.parametrize(("dim", "outcome"), [(-1, "held"), (1, "broken"), (0, "broken")])
def test_rows_that_were_joined(dim, outcome):
    def loss(logits):
        given = logits.log_softmax(dim).reshape(-1, 5)
        return given, functional.nll_loss(given, torch.arange(24) % 5)

    assert _result(loss, (3, 8, 5)) == outcome


def test_a_table_of_all_pairs_is_read_along_either_axis():
    def loss(logits):
        given = logits.log_softmax(0)
        return given, functional.nll_loss(given, torch.arange(8))

    assert _result(loss, (8, 8)) is None


def test_classes_before_positions_and_attention_are_left_alone():
    def moved(logits):
        given = logits.log_softmax(-1).transpose(1, 2)
        return given, functional.nll_loss(given, torch.zeros(3, 8, dtype=torch.long))

    def attention(logits):
        return None, (logits.softmax(0) * logits).sum(0).pow(2).mean()

    def shares_along_the_batch(logits):
        weights = torch.rand(12, 5).softmax(0)
        return None, -(weights * logits.log_softmax(0)).sum(0).mean()

    assert _result(moved, (3, 8, 5)) is None
    assert _result(attention) is None
    assert _result(shares_along_the_batch) == "held"


def test_an_earlier_loss_whose_graph_is_freed_is_left_alone():
    def loss(logits):
        rows = torch.tensor([0, 2, 3, 7])
        given = logits.log_softmax(0)[rows]
        functional.nll_loss(given, _LABELS[rows]).backward(retain_graph=False)
        return given, (logits.detach() * torch.ones(5, requires_grad=True)).mean()

    assert _result(loss) is None


@pytest.mark.parametrize(("dim", "outcome"), [(1, "held"), (-1, "held"), (0, "broken")])
def test_the_weights_of_a_mixture(dim, outcome):
    densities = -torch.rand(12, 5)

    def first(logits):
        return None, -torch.logsumexp(logits.log_softmax(dim) + densities, dim=1).mean()

    def last(logits):
        return None, -torch.logsumexp(densities - logits.tanh() + logits.log_softmax(dim), dim=-1).mean()

    assert [_result(make) for make in (first, last)] == [outcome] * 2


def test_of_states_that_follow_each_other_nothing_is_said():
    def forward(logits):
        moves = logits.log_softmax(0)  # from one of five states to another
        return None, torch.logsumexp(torch.rand(12, 5, 1) + moves, dim=1).sum()

    assert _result(forward, (5, 5)) is None
