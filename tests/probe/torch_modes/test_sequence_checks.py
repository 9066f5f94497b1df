"""Executable checks of sequences: targets that belong elsewhere, padding that matters, answers among the inputs."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional

from mindscope.probe.checks import model_probe  # noqa: E402
from mindscope.probe.checks.attention_checks import attention_is_over_the_tokens  # noqa: E402
from mindscope.probe.checks.dependence import samples_are_independent  # noqa: E402
from mindscope.probe.checks.model_call import ModelCall  # noqa: E402
from mindscope.probe.checks.model_probe import ModelProbe, NotFinite  # noqa: E402
from mindscope.probe.checks.more_padding import more_padding_has_no_effect  # noqa: E402
from mindscope.probe.checks.padding import ignored_tokens_end_rows, unpadded_rows_are_answered  # noqa: E402
from mindscope.probe.checks.score_layout import scores_keep_their_positions  # noqa: E402
from mindscope.probe.checks.sequence_targets import first_compared, targets_of_sequences  # noqa: E402


class Tokens(nn.Module):
    def __init__(self, *, is_causal=True, mask="no", pools=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.is_causal, self.mask, self.pools = is_causal, mask, pools
        self.kept = None

    def forward(self, tokens, lengths=None):
        x = self.embed(tokens) + 0.1 * torch.arange(tokens.shape[1])[:, None]
        size = tokens.shape[1]
        causal = torch.ones(size, size, dtype=torch.bool).triu(1) if self.is_causal else None
        padded = {"no": None, "right": tokens == 0, "inverted": (tokens != 0)}[self.mask]
        x = self.attend(x, x, x, attn_mask=causal, key_padding_mask=padded)[0] + (0 if self.pools else x)
        self.kept = x.sum()
        return self.head(x.mean(1) if self.pools else x)


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(model_probe, "_MOST_S", 60.0)  # a busy machine is no reason to stop


def probe_of(model, tokens, **others):
    model(tokens, **others)
    return ModelProbe(model, ModelCall((tokens,), others, ("tokens",)))


def outcomes(results):
    return {result.check: result.outcome for result in results}


@pytest.mark.parametrize(
    ("late", "expected"),
    [(1, {"no_position_sees_later_ones": "held"}), (2, {"targets_are_the_next_position": "broken"})],
)
def test_targets_that_the_program_shifts_inside(late, expected):
    tokens = torch.randint(0, 16, (4, 9))
    target = torch.cat((tokens[:, late:], torch.full((4, late - 1), -100)), 1)
    assert outcomes(targets_of_sequences(probe_of(Tokens(), tokens), target.flatten())) == expected


@pytest.mark.parametrize(
    "taken",
    [
        lambda scores: scores[:, 1:].flatten(0, 1),
        lambda scores: (scores.float()[:, 1:] / 0.9).contiguous().view(-1, 16),
        lambda scores: scores[:, -7:].reshape(-1, 16),
        lambda scores: scores[:, :][:, 1:].transpose(1, 2),
    ],
)
@pytest.mark.parametrize(
    ("late", "expected"),
    [(1, {"no_position_sees_later_ones": "held"}), (2, {"targets_are_the_next_position": "broken"})],
)
def test_a_loss_that_leaves_out_the_first_position(taken, late, expected):
    tokens, model = torch.randint(0, 16, (4, 8)), Tokens()
    target = torch.cat((tokens[:, 1 + late :], torch.randint(0, 16, (4, late))), 1)
    target[:, 7 - late :] = -100
    first = first_compared(taken(model(tokens)))
    assert first == 1
    assert outcomes(targets_of_sequences(probe_of(model, tokens), target.flatten(), first=first)) == expected


@pytest.mark.parametrize(("late", "outcome"), [(1, "held"), (2, "broken"), (3, "broken")])
def test_a_loss_that_leaves_out_positions_at_both_ends(late, outcome):
    tokens, model = torch.randint(0, 16, (4, 12)), Tokens()
    scores, target = model(tokens)[:, 2:-late], tokens[:, 2 + late :]
    first = first_compared(scores.reshape(-1, 16))
    assert first == 2
    found = outcomes(targets_of_sequences(probe_of(model, tokens), target.flatten(), first=first))
    assert set(found.values()) == {outcome}


def test_a_model_that_sees_later_tokens_is_found_where_the_loss_shifts_inside():
    tokens = torch.randint(0, 16, (4, 9))
    found = outcomes(targets_of_sequences(probe_of(Tokens(is_causal=False), tokens), tokens[:, 1:].flatten()))
    assert found == {"no_position_sees_later_ones": "broken"}


class NotFiniteInEvaluation(Tokens):
    """As torch's fast path for transformers is, which has no gradients, where a mask hides everything."""

    def forward(self, tokens, lengths=None):
        scores = super().forward(tokens, lengths)
        return scores if torch.is_grad_enabled() else scores * float("nan")


class NotFiniteAtTheEnd(Tokens):
    """Where tokens were changed, or have changed places, what belongs to the last position is not finite."""

    def forward(self, tokens, lengths=None):
        scores, mark = super().forward(tokens, lengths), int((tokens.flatten() * torch.arange(tokens.numel())).sum())
        self.usual = getattr(self, "usual", mark)
        return scores if mark == self.usual else torch.cat((scores[:, :-1], scores[:, -1:] * float("nan")), 1)


@pytest.mark.parametrize("kind", [NotFiniteInEvaluation, NotFiniteAtTheEnd])
@pytest.mark.parametrize("is_causal", [True, False])
def test_answers_that_are_not_finite_everywhere_hide_no_leak_and_make_none(kind, is_causal):
    tokens = torch.randint(0, 16, (4, 9))
    probe = probe_of(kind(is_causal=is_causal), tokens)
    assert probe.noise < 1e-5
    found = outcomes(targets_of_sequences(probe, tokens[:, 1:].flatten()))["no_position_sees_later_ones"]
    is_whole = kind is NotFiniteInEvaluation
    assert found == ("broken" if not is_causal else "held" if is_whole else "open")


class Recurrent(nn.Module):
    def __init__(self, *, batch_first):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.cells = nn.LSTM(8, 8, num_layers=2, batch_first=batch_first)

    def forward(self, tokens, state=None):
        x, state = self.cells(self.embed(tokens), state)
        return self.head(x), state


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_recurrent_model_that_takes_samples_for_times_mixes_them(batch_first):
    tokens, model = torch.randint(0, 16, (6, 9)), Recurrent(batch_first=batch_first)
    state = tuple(one.detach() for one in model(tokens)[1])
    result = samples_are_independent(ModelProbe(model, ModelCall((tokens, state), {}, ("tokens", "state"))), None,
                                     is_batched=True)  # fmt: skip
    assert result.outcome == ("held" if batch_first else "broken")


def test_unrelated_targets_say_nothing():
    tokens = torch.randint(0, 16, (4, 9))
    assert not list(targets_of_sequences(probe_of(Tokens(), tokens), torch.randint(0, 16, (36,))))


@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_masked_language_model_whose_scored_tokens_are_shown(is_hidden):
    tokens = torch.randint(1, 16, (8, 12))
    scored = torch.rand(8, 12) < 0.3
    target = tokens.masked_fill(~scored, -100)
    shown = tokens.masked_fill(scored, 0) if is_hidden else tokens
    found = outcomes(targets_of_sequences(probe_of(Tokens(is_causal=False), shown), target))
    assert found == ({} if is_hidden else {"targets_are_not_the_input": "broken"})


def test_an_autoencoder_of_whole_sequences_is_no_masked_objective():
    tokens = torch.randint(1, 16, (8, 12))
    target = tokens.clone()
    target[:4, 9:] = -100
    assert not list(targets_of_sequences(probe_of(Tokens(is_causal=False), tokens), target))


@pytest.mark.parametrize(("turn", "is_wrong"), [(lambda t: t, False), (lambda t: t.t(), True)])
def test_targets_that_are_flattened_in_another_order(turn, is_wrong):
    tokens, output = torch.randint(0, 16, (4, 9)), torch.randn(4, 8, 16)
    target = turn(tokens[:, 1:]).reshape(-1)
    result = scores_keep_their_positions(output.view(-1, 16), target, [output], [("tokens", tokens[:, :-1])])
    assert (result is not None) == is_wrong


@pytest.mark.parametrize("is_wrong", [True, False])
def test_a_reshape_in_place_of_a_transpose(is_wrong):
    tokens, output = torch.randint(0, 16, (4, 9)), torch.randn(4, 9, 16)
    scores = output.reshape(4, 16, 9) if is_wrong else output.transpose(1, 2)
    result = scores_keep_their_positions(scores, tokens, [output], [("tokens", tokens)])
    assert (result is not None and result.outcome == "broken") == is_wrong


def padded_tokens():
    lengths = torch.tensor([5, 6, 7, 8, 9, 10])
    tokens = torch.randint(1, 16, (6, 10))
    return tokens.masked_fill(torch.arange(10) >= lengths[:, None], 0), lengths


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("right", {"more_padding_has_no_effect": "held"}),
        ("no", {"more_padding_has_no_effect": "broken"}),
    ],
)
@pytest.mark.parametrize("is_told", [True, False])
def test_padding_that_a_model_does_not_know_of(mask, expected, is_told):
    tokens, lengths = padded_tokens()
    others = {"lengths": lengths} if is_told else {}
    found = list(more_padding_has_no_effect(probe_of(Tokens(is_causal=False, mask=mask), tokens, **others)))
    assert outcomes(found) == expected
    if mask == "no":
        assert found[0].numbers["is_told"] == is_told


def test_an_inverted_mask_that_the_model_makes_itself():
    tokens, _ = padded_tokens()
    tokens[-1, 9] = 0  # attention to nothing is not a number
    model = Tokens(is_causal=False, mask="inverted")
    found = outcomes(more_padding_has_no_effect(probe_of(model, tokens)))
    assert found["masked_positions_have_no_effect"] == "broken"


def test_a_model_that_keeps_a_result_with_its_graph_can_be_copied():
    tokens = torch.randint(0, 16, (4, 9))
    model = Tokens()
    probe = probe_of(model, tokens)
    assert model.kept.grad_fn is not None
    assert probe.base[0].shape == (4, 9, 16)


@pytest.mark.parametrize(("lost", "is_wrong"), [((4, 5), True), ((0, 4), False), ((), False)])
def test_outputs_that_are_lost_where_nothing_is_padded(lost, is_wrong):
    tokens = padded_tokens()[0]
    tokens[4] = tokens[5]
    output = torch.randn(6, 3)
    output[list(lost)] = float("nan")
    result = unpadded_rows_are_answered(ModelCall((tokens,), {}, ("tokens",)), [output])
    assert (result is not None) == is_wrong


class Weighted(nn.Module):
    """Pools with weights; an inverted mask leaves padded rows the same weight everywhere, of zeros."""

    def __init__(self, *, is_inverted):
        super().__init__()
        self.embed, self.head, self.is_inverted = nn.Embedding(16, 8, padding_idx=0), nn.Linear(8, 3), is_inverted

    def forward(self, tokens):
        x = self.embed(tokens)
        left_out = (tokens == 0) ^ self.is_inverted
        weights = x.sum(-1).masked_fill(left_out, -1e9).softmax(-1)
        return self.head((weights[..., None] * x).sum(1))


@pytest.mark.parametrize("is_inverted", [True, False])
def test_padded_rows_of_which_no_token_is_read(is_inverted):
    tokens, _ = padded_tokens()
    found = outcomes(more_padding_has_no_effect(probe_of(Weighted(is_inverted=is_inverted), tokens)))
    assert found["more_padding_has_no_effect"] == "held"
    assert found.get("masked_positions_have_no_effect") == ("broken" if is_inverted else None)


def test_rows_of_different_lengths_are_changed_one_by_one():
    tokens, lengths = padded_tokens()

    class Trimmed(nn.Module):
        def forward(self, tokens, lengths):
            return torch.ones(6, 3) * tokens[:, : int(lengths.max())].ne(-1).float().mean() * lengths.max()

    probe = ModelProbe(Trimmed(), ModelCall((tokens, lengths), {}, ("tokens", "lengths")))
    found = samples_are_independent(probe, 6, is_batched=True)
    assert found is not None
    assert found.outcome == "held"


@pytest.mark.parametrize(("turn", "is_wrong"), [(lambda t: t, False), (lambda t: t.t(), True)])
def test_targets_in_another_order_where_the_loss_shifts(turn, is_wrong):
    tokens, output = torch.randint(0, 16, (4, 9)), torch.randn(4, 9, 16)
    scores, target = output[:, :-1].reshape(-1, 16), turn(tokens[:, 1:]).reshape(-1)
    assert (scores_keep_their_positions(scores, target, [output], [("tokens", tokens)]) is not None) == is_wrong


def _rows(kind):
    """Twelve rows of tokens 2 to 15 and their ends, token 1."""
    tokens = torch.randint(2, 16, (12, 17), generator=torch.Generator().manual_seed(3))
    if kind == "ends":  # sentences packed one after the other
        tokens[:, 5::6] = 1
    elif kind == "padding":
        for row, length in enumerate(range(4, 16)):
            tokens[row, length:] = 1
    elif kind == "spans":  # prompts that are left out on purpose, together
        tokens[:, 4:9] = 1
    return tokens


@pytest.mark.parametrize(
    ("kind", "ignored", "outcome"),
    [("ends", 1, "broken"), ("padding", 1, "held"), ("spans", 1, "held"), ("ends", -100, None), ("none", 1, None)],
)
def test_tokens_that_are_ignored_between_others(kind, ignored, outcome):
    tokens = _rows(kind)
    result = ignored_tokens_end_rows(probe_of(Tokens(), tokens[:, :-1]), tokens[:, 1:].flatten(), ignored=ignored)
    assert (None if result is None else result.outcome) == outcome


class OnlyInOrder(nn.Module):
    def forward(self, tokens):
        return tokens.float().diff(dim=1).clamp(min=0).sqrt().log()[..., None].expand(-1, -1, 3)


def test_an_answer_that_is_not_finite_is_no_equal_one():
    tokens = torch.arange(1, 13).expand(4, 12).contiguous()
    probe = probe_of(OnlyInOrder(), tokens)
    with pytest.raises(NotFinite):
        probe.answers({"tokens": tokens.flip(1)})
    assert all(result.outcome != "broken" for result in attention_is_over_the_tokens(probe))
