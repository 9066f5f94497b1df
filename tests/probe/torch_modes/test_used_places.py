"""Columns, channels and positions of an input that a model does not use are found by exchanging them among samples."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402  torch is there


class Tabular(nn.Module):
    """Uses the columns from `first` on, and a number of each sample only to look it up."""

    def __init__(self, first, columns=12):
        super().__init__()
        self.first = first
        self.net = nn.Sequential(nn.Linear(columns - first, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x[:, self.first :]).squeeze(-1)


class Picture(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.channels = channels
        self.net = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.net(x[:, : self.channels]).mean(1)


class Text(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.words, self.head, self.pool = nn.Embedding(20, 8), nn.Linear(8, 1), pool

    def forward(self, ids):
        return self.head(self.pool(self.words(ids))).squeeze(-1)


class Window(nn.Module):
    def __init__(self, used):
        super().__init__()
        self.used, self.net = used, nn.GRU(3, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.net(x[:, -self.used :])[0][:, -1]).squeeze(-1)


def numbers(*shape):
    return lambda: torch.randn(*shape)


def tokens(*shape):
    return lambda: torch.randint(1, 20, shape)


CASES = {
    "half of a table": (Tabular(6), numbers(16, 12), "columns_are_used", "warning"),
    "the first column": (Tabular(1), numbers(16, 12), "columns_are_used", "info"),
    "two channels of four": (Picture(2), numbers(8, 4, 8, 8), "columns_are_used", "warning"),
    "the first word": (Text(lambda x: x[:, 0]), tokens(16, 10), "positions_are_used", "warning"),
    "the last word": (Text(lambda x: x[:, -1]), tokens(16, 10), "positions_are_used", "warning"),
    "the first words": (Text(lambda x: x[:, :4].mean(1)), tokens(16, 10), "positions_are_used", "info"),
    "the end of a window": (Window(2), numbers(16, 12, 3), "positions_are_used", "warning"),
    "the second half of a window": (Window(6), numbers(16, 12, 3), "positions_are_used", "info"),
}


@pytest.mark.parametrize("name", CASES)
def test_places_without_an_effect_are_told(told, name):
    model, draw, check, severity = CASES[name]
    found = told(model, lambda: (model(x := draw()) - x.double().mean(-1).reshape(len(x), -1)[:, 0]).square().mean())
    assert found.checks[check]["outcome"] == "broken"
    assert found.causes["ignored_input"] == severity


@pytest.mark.parametrize(
    ("model", "draw"),
    [
        (Tabular(0), numbers(16, 12)),
        (Picture(4), numbers(8, 4, 8, 8)),
        (Text(lambda x: x.mean(1)), tokens(16, 10)),
        (Text(lambda x: x[:, :-1].mean(1)), tokens(16, 10)),
        (Window(11), numbers(16, 12, 3)),
        (Text(lambda x: x.max(1).values), lambda: nn.functional.pad(torch.randint(1, 20, (16, 5)), (0, 5))),
        (Tabular(0), lambda: torch.cat([torch.randn(16, 6), torch.zeros(16, 6)], 1)),
    ],
    ids=["table", "channels", "mean-of-words", "all-but-the-last", "window", "padding", "constant-columns"],
)
def test_what_is_used_and_what_is_constant_is_not_told(told, model, draw):
    found = told(model, lambda: (model(x := draw()) - x.double().mean(-1).reshape(len(x), -1)[:, 0]).square().mean())
    outcomes = {data["outcome"] for check, data in found.checks.items() if check.endswith("s_are_used")}
    assert outcomes <= {"held"}


def test_neighbours_are_no_columns(told):
    model = Tabular(0, columns=16)
    edges = (torch.rand(16, 16) < 0.1).float()
    edges[:, 5] = 0.0
    found = told(model, lambda: (model(edges) - torch.randn(16)).square().mean())
    assert "columns_are_used" not in found.checks
