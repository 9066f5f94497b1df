"""Losses that pick log-probabilities of tokens: of the next ones, of those that the model was given, of padding."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.loss_graph import nodes_of_loss  # noqa: E402  torch is there
from mindscope.probe.checks.picked_tokens import picked_tokens  # noqa: E402
from mindscope.probe.checks.trained_positions import TrainedPositions  # noqa: E402

TOKENS = torch.randint(0, 9, (4, 6), generator=torch.Generator().manual_seed(0))
PICKS: Mapping[str, Callable[[Any], Any]] = {
    "log_softmax": lambda scores: scores.log_softmax(-1).gather(-1, TOKENS.unsqueeze(-1)).squeeze(-1),
    "with a temperature": lambda scores: (scores / 0.7).log_softmax(2).gather(2, TOKENS[..., None]),
    "a distribution": lambda scores: torch.distributions.Categorical(logits=scores).log_prob(TOKENS),
    "masked scores": lambda scores: scores.masked_fill(scores > 9, -1e9).log_softmax(-1).gather(-1, TOKENS[..., None]),
}


@pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)
def test_tokens_are_found_whose_log_probabilities_are_picked(pick: Any) -> None:
    scores = torch.nn.Linear(3, 9)(torch.randn(4, 6, 3))
    loss = -pick(scores).mean()
    found = list(picked_tokens(nodes_of_loss(loss, [scores]), [scores]))
    assert len(found) == 1
    assert torch.equal(found[0], TOKENS)


@pytest.mark.parametrize(
    "pick",
    [
        lambda scores: scores.gather(-1, TOKENS[..., None]),
        lambda scores: scores.softmax(-1).gather(-1, TOKENS[..., None]),
    ],
    ids=["no log-probabilities", "of another function"],
)
def test_other_gathers_are_none(pick: Any) -> None:
    scores = torch.nn.Linear(3, 9)(torch.randn(4, 6, 3))
    loss = -pick(scores).mean()
    assert not list(picked_tokens(nodes_of_loss(loss, [scores]), [scores]))


def trained(mask: Callable[[Any], Any], targets: Callable[[Any], Any]) -> str:
    """Return what is told of a loss with a mask of the real positions of padded rows."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 9, (16, 10), generator=generator)
    lengths = torch.randint(3, 10, (16,), generator=generator)
    real = torch.arange(10) < lengths[:, None]
    tokens = tokens * real
    scores = torch.nn.Linear(1, 9)(torch.randn(16, 10, 1))
    wanted, followed = targets(tokens), TrainedPositions()
    followed.follow([tokens], [scores])
    picked = scores.log_softmax(-1).gather(-1, wanted[..., None]).squeeze(-1)
    (-(picked * mask(real)).sum()).backward()
    return next((result.outcome for result in followed.results([wanted])), "none")


@pytest.mark.parametrize(
    ("mask", "targets", "outcome"),
    [
        (lambda real: real, lambda tokens: tokens, "held"),
        (lambda real: ~real, lambda tokens: tokens, "broken"),
        (torch.ones_like, lambda tokens: tokens, "held"),
        # what was hidden at the ends is filled in
        (lambda real: ~real, lambda tokens: torch.arange(160).reshape(16, 10) % 9, "none"),
        # an answer behind the end of each row
        (lambda real: real.logical_not() & (real.logical_not().cumsum(1) == 1), lambda tokens: tokens, "none"),
    ],
    ids=["the mask", "upside down", "no mask", "filled in", "one position a row"],
)
def test_a_loss_that_trains_padding_alone_is_told(mask: Any, targets: Any, outcome: str) -> None:
    assert trained(mask, targets) == outcome


TRAINING = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(12, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 12)
    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randint(0, 12, (16, 9))
    scores = model(x[:, :-1]).log_softmax(-1)
    loss = -functional.logsigmoid(0.1 * scores.gather(-1, x[:, {which}].unsqueeze(-1)).sum((1, 2))).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(("which", "is_told"), [(":-1", True), ("1:", False)])
def test_a_preference_for_the_tokens_that_are_given_is_a_leak(run_alike: Any, which: str, is_told: bool) -> None:
    store, found, _ = run_alike(TRAINING.format(which=which))
    named = [one for one in store.findings(found.id) if one.cause == "data_leak"]
    assert bool(named) == is_told
