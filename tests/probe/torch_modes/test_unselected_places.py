"""Places in which there is nothing, and a loss of classes that scores them."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Cells(nn.Module):
    """One class and one number for each cell of a picture."""

    def __init__(self):
        super().__init__()
        self.kinds, self.heights = nn.Conv2d(2, 4, 1), nn.Conv2d(2, 1, 1)

    def forward(self, x):
        return self.kinds(x), self.heights(x)[:, 0]


def _loss(model, *, score, select, first=0, seed=0):
    draws = torch.Generator().manual_seed(seed)
    x, heights = torch.randn(8, 2, 5, 5, generator=draws), torch.randn(8, 5, 5, generator=draws)
    hit = torch.rand(8, 5, 5, generator=draws) < 0.2
    kind = torch.where(hit, torch.randint(first, 4, (8, 5, 5), generator=draws), torch.zeros_like(hit).long())
    kinds, guessed = model(x)
    return score(kinds, kind, hit) + select(guessed, heights, hit)


SELECT = {
    "index": lambda guess, wanted, hit: functional.mse_loss(guess[hit], wanted[hit]),
    "product": lambda guess, wanted, hit: ((guess - wanted).abs() * hit.float()).sum() / hit.sum(),
    "masked_select": lambda guess, wanted, hit: (guess.masked_select(hit) - wanted[hit]).square().mean(),
}
ALL = lambda kinds, kind, hit: functional.cross_entropy(kinds, kind)  # noqa: E731
HEALTHY = {
    "selected": (lambda kinds, kind, hit: functional.cross_entropy(kinds.movedim(1, -1)[hit], kind[hit]), 0),
    "ignored": (lambda kinds, kind, hit: functional.cross_entropy(kinds, kind.masked_fill(~hit, -100)), 0),
    "background": (ALL, 1),
    "weighted": (lambda kinds, kind, hit: (functional.cross_entropy(kinds, kind, reduction="none") * hit).mean(), 0),
}


@pytest.mark.parametrize("way", SELECT)
def test_empty_places_that_count_as_a_class_are_told(told, way):
    torch.manual_seed(0)
    model = Cells()
    found = told(model, lambda: _loss(model, score=ALL, select=SELECT[way]))
    assert found.checks["unselected_places_are_not_scored"]["outcome"] == "broken"
    assert "padding_counted" in found.causes


@pytest.mark.parametrize("way", SELECT)
@pytest.mark.parametrize("name", HEALTHY)
def test_places_that_are_left_out_or_have_their_own_class_are_healthy(told, name, way):
    torch.manual_seed(0)
    model, (score, first) = Cells(), HEALTHY[name]
    found = told(model, lambda: _loss(model, score=score, select=SELECT[way], first=first))
    assert found.checks.get("unselected_places_are_not_scored", {}).get("outcome") in (None, "held")
    assert "padding_counted" not in found.causes
