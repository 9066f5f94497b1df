"""Large models have their checks too: their copies share the parameters, which nothing may write to."""

import mindscope as ms
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional

from mindscope.probe.checks import model_copy, model_probe  # noqa: E402  torch is there


class Language(nn.Module):
    def __init__(self, *, is_causal, writes=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 16), nn.Linear(16, 11)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.is_causal, self.writes = is_causal, writes

    def forward(self, tokens):
        if self.writes:
            self.head.bias.data.mul_(0.5)
        x = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1]) if self.is_causal else None
        return self.head(x + self.attend(x, x, x, attn_mask=mask, need_weights=False)[0])


def _train(model, store=None):
    """Train the model, watched if there is a store; return its weights and the outcomes of the checks."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    generator = torch.Generator().manual_seed(0)

    def steps():
        for _ in range(28):
            text = torch.randint(0, 11, (8, 13), generator=generator)
            loss = functional.cross_entropy(model(text[:, :-1]).reshape(-1, 11), text[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    events = ()
    if store is None:
        steps()
    else:
        with ms.watch(model, optimizer, store=store) as monitor:
            steps()
        events = ms.open_store(store).events(monitor.run.id, kind="check")
    outcomes = {one.data["check"]: (one.data["outcome"], one.data["counterexample"]) for one in events}
    return [parameter.detach().clone() for parameter in model.parameters()], outcomes


def _compared(tmp_path, **options):
    found = []
    for store in (None, tmp_path / "runs"):
        torch.manual_seed(0)
        found.append(_train(Language(**options), store))
    (alone, _), (watched, outcomes) = found
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))
    return outcomes


@pytest.mark.parametrize(("is_causal", "outcome"), [(True, "held"), (False, "broken")])
def test_a_large_model_is_asked_whether_it_sees_the_future(tmp_path, monkeypatch, is_causal, outcome):
    monkeypatch.setattr(model_probe, "MOST_BYTES", 1000)
    outcomes = _compared(tmp_path, is_causal=is_causal)
    assert outcomes["no_position_sees_later_ones"][0] == outcome
    assert outcomes["input_is_used"][0] == "held"


def test_a_large_model_that_writes_to_its_parameters_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(model_probe, "MOST_BYTES", 1000)
    outcomes = _compared(tmp_path, is_causal=True, writes=True)
    assert outcomes["model_can_be_called"][0] == "open"
    assert "writes to parameters" in outcomes["model_can_be_called"][1]


@pytest.mark.parametrize("limit", ["_MOST_ELEMENTS", "_MOST_FORWARD_S", "_MOST_BUFFERS"])
def test_a_large_model_beyond_a_limit_is_said_to_be_so(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(model_probe, "MOST_BYTES", 1000)
    monkeypatch.setattr(model_copy if limit == "_MOST_BUFFERS" else model_probe, limit, -1)
    outcomes = _compared(tmp_path, is_causal=True)
    assert outcomes["model_can_be_called"][0] == "open"
