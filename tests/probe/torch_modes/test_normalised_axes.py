"""The norms by which a table of scores divides: along the features, and not along the samples."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.loss_graph import nodes_of_loss  # noqa: E402
from mindscope.probe.checks.normalised_axes import vectors_are_normalised_one_by_one  # noqa: E402
from torch.nn.functional import normalize  # noqa: E402


def outcome(scores):
    torch.manual_seed(0)
    tower = torch.nn.Linear(5, 4)
    u, v = tower(torch.randn(8, 5)), tower(torch.randn(8, 5))
    result = vectors_are_normalised_one_by_one(nodes_of_loss(scores(u, v).sum(), [u, v]))
    return None if result is None else result.outcome


def _of_both(u, v, axis):
    both = torch.cat([normalize(u, dim=axis), normalize(v, dim=axis)])
    return both @ both.T / 0.5


@pytest.mark.parametrize(("axis", "expected"), [(0, "broken"), (1, "held"), (-1, "held")])
@pytest.mark.parametrize(
    "scores",
    [
        lambda u, v, axis: normalize(u, dim=axis) @ normalize(v, dim=axis).t() / 0.07,
        lambda u, v, axis: (10 * u / u.norm(dim=axis, keepdim=True)) @ (v / v.norm(dim=axis, keepdim=True)).T,
        lambda u, v, axis: torch.mm(normalize(u, dim=axis), v.transpose(0, 1)),
        _of_both,
    ],
)
def test_cosines_of_pairs(scores, axis, expected):
    assert outcome(lambda u, v: scores(u, v, axis)) == expected


@pytest.mark.parametrize(
    "scores",
    [
        lambda u, v: normalize(u, dim=0).t() @ normalize(v, dim=0),  # features with features
        lambda u, v: u @ v.t(),
        lambda u, v: normalize(u, dim=0) * normalize(v, dim=0),
    ],
)
def test_of_other_products_nothing_is_said(scores):
    assert outcome(scores) is None
