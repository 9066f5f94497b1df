"""Scores of attention that know where the query stands and where the key does, or only one of both."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.model_call import ModelCall  # noqa: E402
from mindscope.probe.checks.model_probe import ModelProbe  # noqa: E402
from mindscope.probe.checks.score_positions import scores_know_both_positions  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

PLACES, WIDTH = 10, 8


def rotated(x, sign=1.0):
    """Halves of the width as real and imaginary part."""
    real, imaginary = x.chunk(2, -1)
    angles = sign * torch.arange(x.shape[-2])[:, None] * 0.5 ** torch.arange(WIDTH // 2)
    return torch.cat(
        [real * angles.cos() - imaginary * angles.sin(), real * angles.sin() + imaginary * angles.cos()], -1
    )


class Reader(nn.Module):
    """Attention over `(batch, places, width)`, or over `memory` in its place."""

    def __init__(self, encode, *, is_fused=False, bias=None):
        super().__init__()
        self.encode, self.is_fused, self.bias = encode, is_fused, bias
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        query, key = self.encode(self.query(x), self.key(memory))
        if self.is_fused:
            return functional.scaled_dot_product_attention(query, key, self.value(memory), is_causal=True)
        scores = torch.einsum("bqd,bkd->bqk", query, key) + (0.0 if self.bias is None else self.bias)
        return scores.softmax(-1) @ self.value(memory)


class Model(nn.Module):
    def __init__(self, reader, *, has_places=False, reads_memory=False):
        super().__init__()
        self.words, self.reader, self.reads_memory = nn.Embedding(20, WIDTH), reader, reads_memory
        self.places = nn.Parameter(torch.randn(PLACES, WIDTH)) if has_places else 0.0
        self.head = nn.Linear(WIDTH, 20)

    def forward(self, ids):
        x = self.words(ids) + self.places
        return self.head(x + (self.reader(x, self.words(ids)) if self.reads_memory else self.reader(x)))


DISTANCES = (torch.arange(PLACES)[:, None] - torch.arange(PLACES)).abs()
BOTH = {
    "rotated": (lambda q, k: (rotated(q), rotated(k)), "held"),
    "backwards": (lambda q, k: (rotated(q, -1.0), rotated(k, -1.0)), "held"),
    "neither": (lambda q, k: (q, k), None),
    "queries alone": (lambda q, k: (rotated(q), k), "broken"),
    "keys alone": (lambda q, k: (q, rotated(k)), "broken"),
    "one backwards": (lambda q, k: (rotated(q), rotated(k, -1.0)), "broken"),
}


def outcome_of(model, **given):
    torch.manual_seed(1)
    ids = torch.randint(1, 20, (4, PLACES))
    results = list(scores_know_both_positions(ModelProbe(model, ModelCall((ids,), {}, ("ids",)))))
    return results[0].outcome if results else None


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("name", BOTH)
def test_scores_know_both_positions(name, is_fused):
    torch.manual_seed(0)
    encode, expected = BOTH[name]
    assert outcome_of(Model(Reader(encode, is_fused=is_fused))) == expected


@pytest.mark.parametrize(("bias", "places"), [(-0.5 * DISTANCES, False), (None, True), (-0.5 * DISTANCES, True)])
def test_relative_and_added_positions_are_healthy(bias, places):
    torch.manual_seed(0)
    assert outcome_of(Model(Reader(lambda q, k: (q, k), bias=bias), has_places=places)) == "held"


def test_keys_of_another_sequence_may_know_no_position():
    torch.manual_seed(0)
    model = Model(Reader(lambda q, k: (q, k)), has_places=True, reads_memory=True)
    assert outcome_of(model) is None
