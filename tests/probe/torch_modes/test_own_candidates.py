"""A contrastive loss that leaves each sample among the candidates for its own partner."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from mindscope.probe.checks.score_layout import no_sample_competes_with_itself  # noqa: E402


def _outcome(scores, target):
    result = no_sample_competes_with_itself(scores, target)
    return None if result is None else result.outcome


def test_self_similarities_are_no_candidates():
    torch.manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(24, 8), dim=1)
    scores, partner = z @ z.t() / 0.3, (torch.arange(24) + 12) % 24
    assert _outcome(scores, partner) == "broken"
    assert _outcome(scores.masked_fill(torch.eye(24, dtype=torch.bool), float("-inf")), partner) == "held"
    assert _outcome(scores - 1e9 * torch.eye(24), partner) == "held"


def test_pairs_of_two_views_and_classes_are_left_alone():
    torch.manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(24, 8), dim=1)
    assert _outcome(z @ z.t() / 0.3, torch.arange(24)) is None
    assert _outcome(torch.randn(24, 24), (torch.arange(24) + 1) % 24) == "held"
    assert _outcome(torch.randn(24, 10), torch.arange(24) % 10) is None
    assert _outcome(torch.zeros(24, 24), (torch.arange(24) + 1) % 24) == "held"
