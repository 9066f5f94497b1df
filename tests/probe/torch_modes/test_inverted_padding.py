"""A mask of padding that a model makes itself: right, inverted, or none; with positions that are learned."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional

from mindscope.probe.checks import model_probe  # noqa: E402
from mindscope.probe.checks.inverted_padding import padding_is_not_read_in_place_of_tokens  # noqa: E402
from mindscope.probe.checks.model_call import ModelCall  # noqa: E402
from mindscope.probe.checks.model_probe import ModelProbe  # noqa: E402


class Pooled(nn.Module):
    def __init__(self, kind, *, mask, pool):
        super().__init__()
        self.kind, self.mask, self.pool = kind, mask, pool
        self.embed, self.place, self.head = nn.Embedding(16, 8), nn.Embedding(10, 8), nn.Linear(8, 2)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=kind != "time first")
        self.encode = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.scores = nn.Linear(8, 8)
        self.walk = nn.LSTM(8, 8, batch_first=True)

    def forward(self, tokens):
        is_padding = tokens == 0
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        hidden = {"right": is_padding, "inverted": ~is_padding, "none": torch.zeros_like(is_padding)}[self.mask]
        if self.kind == "time first":
            x = self.encode(x.transpose(0, 1), src_key_padding_mask=hidden).transpose(0, 1)
        elif self.kind == "encoder":
            x = self.encode(x, src_key_padding_mask=hidden)
        elif self.kind == "written":
            scores = (self.scores(x) @ x.transpose(1, 2)).masked_fill(hidden[:, None], -1e9)
            x = x + self.scores(scores.softmax(2) @ x)
        elif self.kind == "recurrent":
            x = self.walk(x)[0]
        kept = (is_padding if self.pool == "inverted" else ~is_padding).float()[..., None]
        return self.head((x * kept).sum(1) / kept.sum(1))


CASES = [
    ("encoder", "inverted", "right", True),
    ("encoder", "right", "right", False),
    ("encoder", "none", "right", False),
    ("time first", "inverted", "right", True),
    ("time first", "right", "right", False),
    ("written", "inverted", "right", True),
    ("written", "right", "right", False),
    ("recurrent", "none", "right", False),
    ("bag", "none", "inverted", True),
    ("bag", "none", "right", False),
]


@pytest.mark.parametrize(("kind", "mask", "pool", "is_inverted"), CASES)
def test_a_mask_that_the_model_makes(monkeypatch, kind, mask, pool, is_inverted):
    torch.manual_seed(0)
    monkeypatch.setattr(model_probe, "_MOST_S", 60.0)
    tokens = torch.randint(1, 16, (6, 10)).masked_fill(torch.arange(10) >= torch.arange(4, 10)[:, None], 0)
    model = Pooled(kind, mask=mask, pool=pool)
    before, state = torch.get_rng_state(), [value.clone() for value in model.state_dict().values()]
    found = list(padding_is_not_read_in_place_of_tokens(ModelProbe(model, ModelCall((tokens,), {}, ("tokens",)))))
    assert [result.outcome for result in found] == ["broken"] * is_inverted
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one, other) for one, other in zip(state, model.state_dict().values(), strict=True))
