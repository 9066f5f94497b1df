"""Executable checks on small trainings: each claim is broken by one mistake, and holds in its twin without it."""

from typing import NamedTuple

import mindscope as ms
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


def outcomes(tmp_path, model, losses, *, steps=28):
    """Train and return {(check, subject): outcome} of the last occasion."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with ms.watch(model, optimizer, store=tmp_path / "runs") as monitor:
        for _ in range(steps):
            loss = losses()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    store = ms.open_store(tmp_path / "runs")
    events = store.events(monitor.run.id, kind="check")
    return {(event.data["check"], event.data["subject"]): event.data["outcome"] for event in events}


class Conditioned(nn.Module):
    def __init__(self, *, uses_time):
        super().__init__()
        self.inner, self.uses_time = nn.Linear(4, 4), uses_time

    def forward(self, x, time):
        return self.inner(x) + (time[:, None] if self.uses_time else 0.0)


@pytest.mark.parametrize("uses_time", [True, False])
def test_an_input_that_the_model_does_not_use(tmp_path, uses_time):
    torch.manual_seed(0)
    model = Conditioned(uses_time=uses_time)
    found = outcomes(tmp_path, model, lambda: model(torch.randn(8, 4), torch.rand(8)).pow(2).mean())
    assert found["input_is_used", "x"] == "held"
    assert found["input_is_used", "time"] == ("held" if uses_time else "broken")


class Softened(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.inner, self.axis = nn.Linear(4, 3), axis

    def forward(self, x):
        return self.inner(x).log_softmax(self.axis)


@pytest.mark.parametrize(("axis", "outcome"), [(1, "held"), (0, "broken")])
def test_a_softmax_over_the_batch_mixes_samples(tmp_path, axis, outcome):
    torch.manual_seed(0)
    model = Softened(axis)

    def loss():
        return functional.nll_loss(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)))

    assert outcomes(tmp_path, model, loss)["samples_are_independent", ""] == outcome


class TwoTowers(nn.Module):
    """Scores all pairs of users and items of a batch, `(samples, samples)`."""

    def __init__(self, axis, *, with_scale):
        super().__init__()
        self.user, self.item, self.with_scale = nn.Linear(4, 6), nn.Linear(5, 6), with_scale
        self.user_end, self.item_end = (nn.Sequential(Normalised(axis)) for _ in range(2))

    def forward(self, user, item):
        scores = self.user_end(self.user(user)) @ self.item_end(self.item(item)).T * 4.0
        return (scores, self.user.weight.norm()) if self.with_scale else scores


class Normalised(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, x):
        return functional.normalize(x, dim=self.axis)


@pytest.mark.parametrize("with_scale", [False, True], ids=["pairs", "pairs and a number"])
@pytest.mark.parametrize(("axis", "outcome"), [(1, None), (0, "broken")])
def test_towers_that_answer_for_pairs_are_tried_before_the_pairs(tmp_path, axis, outcome, with_scale):
    torch.manual_seed(0)
    model = TwoTowers(axis, with_scale=with_scale)

    def loss():
        answer = model(torch.randn(8, 4), torch.randn(8, 5))
        return functional.cross_entropy(answer[0] if with_scale else answer, torch.arange(8))

    assert outcomes(tmp_path, model, loss).get(("samples_are_independent", "")) == outcome


class Weighted(nn.Module):
    """Classifies tokens by a weighted sum, and takes their lengths beside them."""

    def __init__(self, axis):
        super().__init__()
        self.embed, self.score, self.head, self.axis = nn.Embedding(50, 8), nn.Linear(8, 1), nn.Linear(8, 3), axis

    def forward(self, x):
        hidden = self.embed(x[0])
        return self.head((hidden * self.score(hidden).softmax(self.axis)).sum(1))


@pytest.mark.parametrize(("axis", "outcome"), [(1, "held"), (0, "broken")])
def test_a_softmax_over_the_batch_mixes_samples_that_come_with_their_lengths(tmp_path, axis, outcome):
    torch.manual_seed(0)
    model = Weighted(axis)

    def loss():
        tokens, lengths = torch.randint(0, 50, (16, 9)), torch.randint(3, 10, (16,))
        return functional.cross_entropy(model((tokens, lengths)), torch.randint(0, 3, (16,)))

    assert outcomes(tmp_path, model, loss)["samples_are_independent", ""] == outcome


class Messages(nn.Module):
    """Sums what the beginnings of edges send to their ends."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, x, source, target):
        return self.inner(x + torch.zeros_like(x).index_add_(0, target, x[source])).squeeze(-1)


def test_nodes_that_send_messages_along_two_lists_of_edges_are_no_samples(tmp_path):
    torch.manual_seed(0)
    model = Messages()

    def loss():
        source, target = torch.randint(0, 30, (2, 90))
        return (model(torch.randn(30, 4), source, target) - torch.randn(30)).pow(2).mean()

    assert ("samples_are_independent", "") not in outcomes(tmp_path, model, loss)


class Quantised(nn.Module):
    """Rounds its input to steps of the batch's range, as training for 8-bit integers does."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        step = x.detach().abs().max() / 127
        return self.inner(x + ((x / step).round() * step - x).detach())


def test_a_range_that_is_measured_on_the_batch_mixes_no_samples(tmp_path):
    torch.manual_seed(0)
    model = Quantised()

    def loss():
        x = torch.randn(8, 4)
        x[2] *= 3  # the range is that of a sample in the replaced half
        return functional.cross_entropy(model(x), torch.randint(0, 3, (8,)))

    assert outcomes(tmp_path, model, loss)["samples_are_independent", ""] == "held"


class Language(nn.Module):
    def __init__(self, *, is_causal):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.attend, self.is_causal = nn.MultiheadAttention(8, 2, batch_first=True), is_causal

    def forward(self, tokens):
        x = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1]) if self.is_causal else None
        return self.head(x + self.attend(x, x, x, attn_mask=mask)[0])


@pytest.mark.parametrize(("is_causal", "outcome"), [(True, "held"), (False, "broken")])
def test_a_language_model_that_sees_the_next_token(tmp_path, is_causal, outcome):
    torch.manual_seed(0)
    model = Language(is_causal=is_causal)

    def loss():
        tokens = torch.randint(0, 16, (4, 9))
        return functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    assert outcomes(tmp_path, model, loss)["no_position_sees_later_ones", "tokens"] == outcome


def test_a_causal_model_whose_targets_are_its_inputs(tmp_path):
    torch.manual_seed(0)
    model = Language(is_causal=True)

    def loss():
        tokens = torch.randint(0, 16, (4, 9))
        return functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    assert outcomes(tmp_path, model, loss)["targets_are_not_the_input", "tokens"] == "broken"


class Shifting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Language(is_causal=True)

    def forward(self, targets):
        begin = torch.zeros_like(targets[:, :1])
        return self.inner(torch.cat((begin, targets[:, :-1]), 1))


def test_a_decoder_that_shifts_its_targets_itself_copies_nothing(tmp_path):
    torch.manual_seed(0)
    model = Shifting()

    def loss():
        tokens = torch.randint(0, 16, (4, 9))
        return functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    assert ("targets_are_not_the_input", "targets") not in outcomes(tmp_path, model, loss)


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Language(is_causal=True)

    def forward(self, tokens, targets):
        logits = self.inner(tokens)
        return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_targets_that_the_model_gets_for_its_loss_alone_are_no_copy(tmp_path):
    torch.manual_seed(0)
    model = WithLoss()

    def loss():
        tokens = torch.randint(0, 16, (4, 9))
        return model(tokens[:, :-1], tokens[:, 1:])[1]

    found = outcomes(tmp_path, model, loss)
    assert ("targets_are_not_the_input", "targets") not in found
    assert found["no_position_sees_later_ones", "tokens"] == "held"


@pytest.mark.parametrize(("is_leaking", "outcome"), [(False, "held"), (True, "broken")])
def test_a_target_among_the_columns(tmp_path, is_leaking, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)

    def loss():
        x = torch.randn(16, 4)
        y = x[:, 2:3] if is_leaking else x.sum(1, keepdim=True)
        return functional.mse_loss(model(x), y)

    assert outcomes(tmp_path, model, loss)["targets_are_no_input_column", "input"] == outcome


@pytest.mark.parametrize(("shape", "outcome"), [((16, 1), "held"), ((16,), "broken")])
def test_predictions_that_are_compared_with_all_targets(tmp_path, shape, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    found = outcomes(tmp_path, model, lambda: ((model(torch.randn(16, 4)) - torch.randn(shape)) ** 2).mean())
    assert found["loss_compares_pairs_once", ""] == outcome


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.parametrize(("shape", "outcome"), [((16, 1), "held"), ((16,), "broken"), ((16, 16), "broken")])
def test_targets_that_a_loss_function_broadcasts(tmp_path, name, shape, outcome):
    """Rewards without a column beside values with one make a target of all pairs."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    found = outcomes(tmp_path, model, lambda: getattr(functional, name)(model(torch.randn(16, 4)), torch.randn(shape)))
    assert found["loss_compares_pairs_once", ""] == outcome


@pytest.mark.parametrize(("axes", "outcome"), [((), "held"), ((2,), "held"), ((0, 1, 2), "broken")])
def test_distances_of_all_pairs_whose_mean_is_the_loss(tmp_path, axes, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)

    def loss():
        prediction, target = model(torch.randn(16, 4)), torch.randn(16, 3)
        if not axes:
            return ((prediction - target) ** 2).mean()
        squares = (prediction[:, None] - target) ** 2
        return squares.mean() if len(axes) > 1 else (-squares.sum(2)).exp().mean()  # a kernel compares all pairs

    assert outcomes(tmp_path, model, loss)["loss_compares_pairs_once", ""] == outcome


@pytest.mark.parametrize(("sign", "outcome"), [(1, "held"), (-1, "broken")])
def test_a_distance_that_is_maximised(tmp_path, sign, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    found = outcomes(tmp_path, model, lambda: sign * functional.mse_loss(model(torch.randn(16, 4)), torch.randn(16, 1)))
    assert found["loss_is_minimised", "mse_loss"] == outcome


@pytest.mark.parametrize(("is_cut", "outcome"), [(False, "held"), (True, "broken")])
def test_a_loss_whose_graph_was_cut(tmp_path, is_cut, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)

    def loss():
        scores = model(torch.randn(16, 4))
        if not is_cut:
            return functional.cross_entropy(scores, torch.zeros(16, dtype=torch.long))
        return functional.mse_loss(scores.argmax(1).float(), torch.zeros(16)).requires_grad_()

    assert outcomes(tmp_path, model, loss)["the_loss_has_a_graph", ""] == outcome


@pytest.mark.parametrize(("is_detached", "outcome"), [(True, None), (False, "broken")])
def test_a_bootstrapped_target_with_a_gradient(tmp_path, is_detached, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)

    def loss():
        target = torch.rand(16) + 0.9 * model(torch.randn(16, 4)).max(1)[0]
        chosen = model(torch.randn(16, 4)).gather(1, torch.randint(0, 3, (16, 1))).squeeze(1)
        return functional.smooth_l1_loss(chosen, target.detach() if is_detached else target)

    assert outcomes(tmp_path, model, loss).get(("targets_have_no_gradient", "")) == outcome


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy, self.value = nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, x):
        return self.policy(x), self.value(x).squeeze(1)


@pytest.mark.parametrize(("sign", "outcome"), [(-1, "held"), (1, "broken")])
def test_a_policy_whose_weights_are_negative_and_whose_baseline_is_another(tmp_path, sign, outcome):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        logits, value = model(torch.randn(32, 4))
        chosen = logits.softmax(1).gather(1, torch.randint(0, 2, (32, 1))).squeeze(1)
        returns, truncated = torch.randn(32) + 1, torch.rand(32) + 0.5
        surrogate = sign * truncated * chosen.log() * (returns - value.detach() - 0.7)
        return (surrogate + functional.smooth_l1_loss(value, returns)).mean()

    assert outcomes(tmp_path, model, loss)["good_actions_become_likelier", ""] == outcome


@pytest.mark.parametrize("is_squared_by_hand", [True, False])
@pytest.mark.parametrize(("sign", "outcome"), [(-1, "held"), (1, "broken")])
def test_a_policy_that_unlearns_what_did_better_than_expected(tmp_path, sign, outcome, is_squared_by_hand):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        logits, value = model(torch.randn(32, 4))
        actions, returns = torch.distributions.Categorical(logits=logits), torch.randn(32)
        chosen = actions.log_prob(actions.sample())
        fit = (value - returns).pow(2).mean() if is_squared_by_hand else functional.mse_loss(value, returns)
        return sign * (chosen * (returns - value).detach()).mean() + 0.5 * fit

    assert outcomes(tmp_path, model, loss)["good_actions_become_likelier", ""] == outcome


def _negated(logits, actions):
    return -torch.distributions.Categorical(logits=logits).log_prob(actions)


def _as_labels(logits, actions):
    return functional.cross_entropy(logits, actions, reduction="none")


def _of_normal(logits, actions):
    del actions
    policy = torch.distributions.Normal(logits, torch.ones(2))
    return -policy.log_prob(policy.sample()).sum(1)


def _of_two(logits, actions):
    policy = torch.distributions.Bernoulli(logits=logits[:, 0])
    return -policy.log_prob(actions.float())


def _no_choice(logits, actions):
    return torch.sigmoid(logits[:, 0]) * actions


@pytest.mark.parametrize(("sign", "outcome"), [(1, "held"), (-1, "broken")])
@pytest.mark.parametrize("surprise", [_negated, _as_labels, _of_normal, _of_two, _no_choice])
def test_a_policy_is_judged_however_its_loss_is_written(tmp_path, surprise, sign, outcome):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        logits, value = model(torch.randn(32, 4))
        returns = torch.randn(32)
        surprises = surprise(logits, torch.randint(0, 2, (32,)))
        return sign * (surprises * (returns - value).detach()).mean() + functional.mse_loss(value, returns)

    expected = None if surprise is _no_choice else outcome
    assert outcomes(tmp_path, model, loss).get(("good_actions_become_likelier", "")) == expected


@pytest.mark.parametrize("has_probabilities", [True, False])
@pytest.mark.parametrize("is_stacked", [True, False])
@pytest.mark.parametrize(("sign", "outcome"), [(1, "held"), (-1, "broken")])
def test_a_policy_whose_actions_are_taken_one_by_one(tmp_path, sign, outcome, is_stacked, has_probabilities):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        chosen, values, returns = [], [], torch.randn(24)
        for _ in returns:
            logits, value = model(torch.randn(1, 4))
            scores = {"probs": logits.softmax(-1)} if has_probabilities else {"logits": logits}
            actions = torch.distributions.Categorical(**scores)
            chosen.append(actions.log_prob(actions.sample()).squeeze())
            values.append(value.squeeze())
        if is_stacked:
            all_values = torch.stack(values)
            gain = torch.stack(chosen) * (returns - all_values.detach())
            return functional.mse_loss(all_values, returns) - sign * gain.sum()
        pairs = list(zip(chosen, values, returns, strict=True))
        losses = [-sign * one * (wanted.item() - value.item()) for one, value, wanted in pairs]
        fits = [functional.smooth_l1_loss(value, wanted) for _, value, wanted in pairs]
        return torch.stack(losses).sum() + torch.stack(fits).sum()

    assert outcomes(tmp_path, model, loss)["good_actions_become_likelier", ""] == outcome


@pytest.mark.parametrize("is_upside_down", [False, True])
def test_the_ratio_of_a_policy(tmp_path, is_upside_down):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        x, returns = torch.randn(32, 4), torch.randn(32)
        logits, value = model(x)
        actions = torch.distributions.Categorical(logits=logits)
        chosen = actions.sample()
        new = actions.log_prob(chosen)
        old = new.detach() + 0.1 * torch.randn(32)
        ratio = (old - new if is_upside_down else new - old).exp()
        advantage = (returns - value).detach()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        return functional.mse_loss(value, returns) - gain

    found = outcomes(tmp_path, model, loss)
    assert found["good_actions_become_likelier", ""] == ("broken" if is_upside_down else "held")


@pytest.mark.parametrize("fits_numbers", [False, True])
def test_labels_that_a_focal_loss_weighs_are_no_actions(tmp_path, fits_numbers):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        x = torch.randn(256, 4)
        logits, value = model(x)
        labels = (x[:, 0] > 1.5).float()
        surprises = functional.binary_cross_entropy_with_logits(0.05 * logits[:, 0] - 3.5, labels, reduction="none")
        weights = 0.75 * labels + 0.25 * (1 - labels)
        focal = (weights * (1 - torch.exp(-surprises)) ** 2 * surprises).mean()
        return focal + functional.mse_loss(value, labels) if fits_numbers else focal

    assert outcomes(tmp_path, model, loss).get(("good_actions_become_likelier", "")) in (None, "held")


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class OfPairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, pair):
        return self.inner(pair.left + pair.right)


def test_named_tuples_of_inputs_are_given_otherwise(tmp_path):
    model = OfPairs()

    def loss():
        return model(Pair(torch.randn(16, 4), torch.randn(16, 4))).square().mean()

    found = outcomes(tmp_path, model, loss)
    assert (found["input_is_used", "pair[0]"], found["input_is_used", "pair[1]"]) == ("held",) * 2


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.lstm(x)[1][0][-1])


def test_a_packed_sequence_is_one_input(tmp_path):
    model, lengths = Packed(), torch.tensor([5, 4, 4, 3, 2, 2, 1, 1] * 2).sort(descending=True).values

    def loss():
        packed = nn.utils.rnn.pack_padded_sequence(torch.randn(16, 5, 3), lengths, batch_first=True)
        return functional.cross_entropy(model(packed), torch.randint(0, 2, (16,)))

    found = outcomes(tmp_path, model, loss)
    assert found["input_is_used", "x"] == "held"
    assert "broken" not in found.values()


class UnderAutocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)


def test_parts_that_autocast_hands_bfloat16_are_called_with_float32(tmp_path, caplog):
    torch.manual_seed(0)
    model = UnderAutocast()

    def loss():
        x = torch.randn(32, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            answers = model.second(model.first(x).relu())  # the parts are called, the whole never is
        return functional.cross_entropy(answers.float(), (x[:, 0] > 0).long())

    found = outcomes(tmp_path, model, loss)
    assert ("model_can_be_called", "") not in found
    assert len(found) > 3
    assert "check failed" not in caplog.text


class Recogniser(nn.Module):
    def __init__(self, *, batch_first):
        super().__init__()
        self.inner, self.head = nn.GRU(3, 8, batch_first=batch_first), nn.Linear(8, 6)

    def forward(self, x):
        return self.head(self.inner(x)[0]).log_softmax(-1).transpose(0, 1)


@pytest.mark.parametrize(("batch_first", "first_label"), [(True, 1), (False, 1), (True, 0)])
def test_sequences_without_alignment(tmp_path, batch_first, first_label):
    torch.manual_seed(0)
    model, criterion = Recogniser(batch_first=batch_first), nn.CTCLoss()

    def loss():
        labels = torch.randint(first_label, 6, (8, 4))
        labels[:, 3] = 0  # padding
        return criterion(model(torch.randn(8, 12, 3)), labels, torch.full((8,), 12), torch.full((8,), 3))

    found = outcomes(tmp_path, model, loss)
    assert found["blank_is_no_label", ""] == ("held" if first_label else "broken")
    assert found["samples_are_independent", ""] == ("held" if batch_first else "broken")


@pytest.mark.parametrize(("scale", "outcome"), [(10.0, "held"), (0.1, "broken")])
def test_similarities_that_a_softmax_cannot_tell_apart(tmp_path, scale, outcome):
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    nn.init.eye_(model.weight)

    def loss():
        x = torch.randn(32, 8)
        first, second = functional.normalize(model(x), dim=1), functional.normalize(x, dim=1)
        return functional.cross_entropy(scale * first @ second.T, torch.arange(32))

    found = outcomes(tmp_path, model, loss, steps=180)
    assert found["scores_can_be_sure", "cross_entropy"] == outcome


@pytest.mark.parametrize(("momentum", "outcome"), [(0.1, None), (0.001, "broken")])
def test_running_statistics_that_have_hardly_moved(tmp_path, momentum, outcome):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=momentum), nn.ReLU(), nn.Linear(4, 1))

    def loss():
        x = 3.0 + torch.randn(300, 3)
        return functional.mse_loss(model(x), x[:, :1] ** 2)

    found = outcomes(tmp_path, model, loss, steps=203)
    assert found.get(("running_statistics_fit_the_batches", "")) == outcome


@pytest.mark.parametrize(("momentum", "is_loaded", "outcome"), [(0.0, 0, "broken"), (0.0, 1, None), (0.1, 0, None)])
def test_running_statistics_that_never_move_show_at_once(tmp_path, momentum, is_loaded, outcome):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 32), nn.BatchNorm1d(32, momentum=momentum), nn.ReLU(), nn.Linear(32, 1))
    if is_loaded:  # statistics of an earlier training, which are kept on purpose
        model[1].running_mean += 0.1

    def loss():
        x = 3.0 + torch.randn(64, 3)
        return functional.mse_loss(model(x), x[:, :1] ** 2)

    assert outcomes(tmp_path, model, loss).get(("running_statistics_fit_the_batches", "")) == outcome


class Encoder(nn.Module):
    def __init__(self, *, heeds_mask):
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)
        self.attend, self.heeds_mask = nn.MultiheadAttention(8, 2, batch_first=True), heeds_mask

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        return self.head(x + self.attend(x, x, x, key_padding_mask=mask if self.heeds_mask else None)[0])


def _padded():
    lengths = torch.tensor([3, 4, 5, 6, 7, 8, 8, 5])
    tokens = torch.randint(1, 12, (8, 8))
    mask = torch.arange(8)[None] >= lengths[:, None]
    return tokens.masked_fill(mask, 0), mask


@pytest.mark.parametrize(("heeds_mask", "outcome"), [(True, "held"), (False, "broken")])
def test_padding_that_a_mask_names(tmp_path, heeds_mask, outcome):
    torch.manual_seed(0)
    model = Encoder(heeds_mask=heeds_mask)

    def loss():
        tokens, mask = _padded()
        return functional.cross_entropy(model(tokens, mask).flatten(0, 1), torch.randint(0, 12, (64,)))

    assert outcomes(tmp_path, model, loss)["masked_positions_have_no_effect", "mask"] == outcome


def test_a_mask_of_ones_and_zeros_beside_tokens_padded_with_zero_is_no_text(tmp_path):
    torch.manual_seed(0)

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Encoder(heeds_mask=True)

        def forward(self, tokens, kept):
            return self.inner(tokens, kept == 0)

    model = Reader()

    def loss():
        tokens, mask = _padded()
        return functional.cross_entropy(model(tokens, (~mask).long()).flatten(0, 1), torch.randint(0, 12, (64,)))

    found = outcomes(tmp_path, model, loss)
    assert found["masked_positions_have_no_effect", "kept"] == "held"
    assert ("masked_positions_have_no_effect", "tokens") not in found


@pytest.mark.parametrize(("is_on", "outcome"), [(True, "broken"), (False, "held")])
def test_dropout_in_evaluation_mode(tmp_path, is_on, outcome):
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.two(functional.dropout(self.one(x).relu(), 0.3, training=is_on or self.training))

    model = Net()

    def loss():
        return functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(0, 3, (16,)))

    assert outcomes(tmp_path, model, loss)["evaluation_is_without_dropout", "dropout" if is_on else ""] == outcome


@pytest.mark.parametrize(("ignored", "outcome"), [(0, "held"), (-100, "broken")])
def test_padding_that_is_scored(tmp_path, ignored, outcome):
    torch.manual_seed(0)
    model = Encoder(heeds_mask=True)

    def loss():
        tokens, mask = _padded()
        return functional.cross_entropy(model(tokens, mask).flatten(0, 1), tokens.flatten(), ignore_index=ignored)

    assert outcomes(tmp_path, model, loss)["padding_is_not_scored", "tokens"] == outcome


def test_columns_of_very_different_scale(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    scale = torch.tensor([1.0, 0.5, 1e5])
    found = outcomes(tmp_path, model, lambda: model(torch.randn(16, 3) * scale).tanh().mean())
    assert found["input_columns_have_one_scale", "input"] == "broken"


def test_checks_leave_the_training_as_it_was(tmp_path):
    def train(watched):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        monitor = ms.watch(model, optimizer, store=tmp_path / "runs") if watched else None
        losses = []
        for _ in range(30):
            loss = functional.mse_loss(model(torch.randn(16, 4)), torch.randn(16, 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if monitor is not None:
            monitor.close()
        hooks = [len(module._forward_hooks) for module in model.modules()]
        return losses, [value.tolist() for value in model.state_dict().values()], hooks

    losses, state, _ = train(watched=False)
    watched_losses, watched_state, hooks = train(watched=True)
    assert (losses, state) == (watched_losses, watched_state)
    assert not any(hooks)


def test_checks_can_be_switched_off(tmp_path):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with ms.watch(model, optimizer, store=tmp_path / "runs", config={"checks": False}) as monitor:
        for _ in range(4):
            model(torch.randn(4, 4)).mean().backward()
            optimizer.step()
    assert not list(ms.open_store(tmp_path / "runs").events(monitor.run.id, kind="check"))


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "held"), (1e-6, "broken")])
def test_outputs_that_are_all_the_same(tmp_path, factor, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.mul_(factor)
    model.weight.requires_grad_(False)
    found = outcomes(tmp_path, model, lambda: model(torch.randn(8, 4)).mean(), steps=203)
    assert found["outputs_differ", ""] == outcome


@pytest.mark.parametrize(
    ("factor", "is_cosine", "outcome"), [(0.0, True, "broken"), (0.0, False, "held"), (1.0, True, "held")]
)
def test_outputs_of_one_direction_are_the_same_to_a_cosine(tmp_path, factor, is_cosine, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 16)
    direction = torch.randn(16)
    with torch.no_grad():
        model.weight[1:].mul_(factor)
        model.weight[:1].mul_(0.1)
    model.bias.data.copy_(10 * direction)
    model.requires_grad_(False)
    model.bias.requires_grad_(True)

    def loss():
        answer = model(torch.randn(8, 4)) * (1 + torch.rand(8, 1))
        return -nn.functional.cosine_similarity(answer, direction[None]).mean() if is_cosine else answer.mean()

    if factor:
        model.bias.data.zero_()
    found = outcomes(tmp_path, model, loss, steps=203)
    assert found["outputs_differ", ""] == outcome


@pytest.mark.parametrize(("is_reseeded", "outcome"), [(False, "held"), (True, "broken")])
def test_a_generator_that_is_seeded_in_every_step(tmp_path, is_reseeded, outcome):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    x = torch.randn(8, 4)

    def loss():
        if is_reseeded:
            torch.manual_seed(7)
        return model(x).mean()

    assert outcomes(tmp_path, model, loss)["random_numbers_differ", ""] == outcome


def test_a_training_without_random_numbers_repeats_none(tmp_path):
    model, x = nn.Linear(4, 1), torch.ones(8, 4)
    assert ("random_numbers_differ", "") not in outcomes(tmp_path, model, lambda: model(x).mean())


def _constant_losses(tmp_path, model, losses):
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with ms.watch(model, optimizer, store=tmp_path / "runs") as monitor:
        for _ in range(4):
            loss = losses()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ms.open_store(tmp_path / "runs").series(monitor.run.id, "", "scalar/target/constant_loss").values.tolist()


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_mean_of_squares_is_compared_with_the_best_constant(tmp_path, is_reversed):
    torch.manual_seed(0)
    model, x = nn.Linear(4, 1), torch.randn(16, 4)
    y = 3.0 * torch.randn(16)

    def loss():
        out = model(x).squeeze(1)
        return ((y - out) ** 2).mean() if is_reversed else (out - y).pow(2).mean()

    assert _constant_losses(tmp_path, model, loss) == pytest.approx([float(y.var(correction=0))], rel=1e-5)


def test_a_square_of_something_else_than_the_output_has_no_best_constant(tmp_path):
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 1), torch.randn(16, 4), torch.randn(16, 1)
    assert not _constant_losses(tmp_path, model, lambda: (model(x).tanh() - y).pow(2).mean())


@pytest.mark.parametrize(("sign", "outcome"), [(-1, "held"), (1, "broken")])
def test_the_sign_of_an_entropy_bonus(tmp_path, sign, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)

    def loss():
        actions = torch.distributions.Categorical(logits=model(torch.randn(16, 4)))
        chosen = actions.log_prob(actions.sample())
        return -(chosen * torch.randn(16)).mean() + sign * 0.01 * actions.entropy().mean()

    assert outcomes(tmp_path, model, loss)["entropy_is_raised", ""] == outcome


@pytest.mark.parametrize("is_detached", [True, False])
def test_an_advantage_with_a_gradient(tmp_path, is_detached):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        logits, value = model(torch.randn(32, 4))
        actions, returns = torch.distributions.Categorical(logits=logits), torch.randn(32)
        advantage = returns - (value.detach() if is_detached else value)
        return -(actions.log_prob(actions.sample()) * advantage).mean() + (value - returns).pow(2).mean()

    found = outcomes(tmp_path, model, loss)
    assert found.get(("advantages_have_no_gradient", "")) == (None if is_detached else "broken")


@pytest.mark.parametrize(("is_table", "outcome"), [(True, "broken"), (False, "held")])
def test_a_target_of_two_values_among_the_columns_of_a_table(tmp_path, is_table, outcome):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)

    def loss():
        x = torch.randn(32, 4) if is_table else torch.randint(0, 2, (32, 4)).float()
        y = torch.randint(0, 2, (32, 1)).float()
        x[:, 1] = (y[:, 0] - 0.5) / 0.5 if is_table else y[:, 0]
        return functional.binary_cross_entropy_with_logits(model(x), y)

    assert outcomes(tmp_path, model, loss)["targets_are_no_input_column", "input"] == outcome


def test_a_function_that_calls_the_original_modules_says_nothing_of_dropout(tmp_path):
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = parts = nn.ModuleDict({"one": nn.Linear(6, 3), "drop": nn.Dropout(0.2)})
            self.apply_parts = lambda x: parts["drop"](parts["one"](x))

        def forward(self, x):
            return self.apply_parts(x)

    model = Block()

    def loss():
        return functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(0, 3, (16,)))

    found = outcomes(tmp_path, model, loss)
    assert not [check for check in found if check[0] == "evaluation_is_without_dropout"]


class Scanner(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.first, self.norm, self.last, self.kind = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2), kind

    def forward(self, x):
        if self.kind == "centres":
            x = (x - x.mean(0)) / x.std(0)
        hidden = self.first(x)
        return self.last((self.norm(hidden) if self.kind == "normed" else hidden).relu())


@pytest.mark.parametrize(("kind", "outcome"), [("plain", "broken"), ("centres", "held"), ("normed", "held")])
def test_a_large_input_that_the_model_scales_itself(tmp_path, kind, outcome):
    torch.manual_seed(0)
    model = Scanner(kind)

    def loss():
        x = 300.0 + 200.0 * torch.randn(32, 3)
        return functional.cross_entropy(model(x), (x[:, 0] > 300).long())

    assert outcomes(tmp_path, model, loss)["large_inputs_are_scaled_by_the_model", "x"] == outcome


@pytest.mark.parametrize(("shape", "outcome"), [((-1, 1, 8), "none"), ((-1, 4, 8), "broken")])
def test_rows_of_one_sequence_are_no_samples_that_mix(tmp_path, shape, outcome):
    torch.manual_seed(0)

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.lstm, self.last = nn.Linear(3 * shape[1], 8 * shape[1]), nn.LSTM(8, 8), nn.Linear(8, 2)

        def forward(self, x):
            hidden, _ = self.lstm(self.first(x).relu().view(*shape))
            return self.last(hidden).mean(1)

    model = Policy()

    def loss():
        x = torch.randn(20, 3 * shape[1])
        return functional.cross_entropy(model(x), (x[:, 0] > 0).long())

    found = outcomes(tmp_path, model, loss)
    assert next((told for (check, _), told in found.items() if check == "samples_are_independent"), "none") == outcome


def test_lengths_that_a_model_only_gives_back_are_used(tmp_path):
    torch.manual_seed(0)

    class Encoder(nn.Module):
        def __init__(self, is_told):
            super().__init__()
            self.layer, self.is_told = nn.Linear(3, 2), is_told

        def forward(self, x, lengths):
            return self.layer(x), (lengths + 1) // 2 if self.is_told else None

    for is_told, outcome in ((True, "held"), (False, "broken")):
        model = Encoder(is_told)

        def loss(model=model):
            x = torch.randn(16, 3)
            return functional.cross_entropy(model(x, torch.randint(1, 9, (16,)))[0], (x[:, 0] > 0).long())

        assert outcomes(tmp_path / outcome, model, loss)["input_is_used", "lengths"] == outcome


def test_a_table_of_the_model_itself_is_no_layer_that_is_given_its_input(tmp_path):
    torch.manual_seed(0)

    class Forecaster(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.layer = nn.Parameter(torch.zeros(1, 3)), nn.Linear(3, 2)

        def forward(self, x):
            return self.layer((x - 300.0) / 200.0 + self.table)

    model = Forecaster()

    def loss():
        x = 300.0 + 200.0 * torch.randn(32, 3)
        return functional.cross_entropy(model(x), (x[:, 0] > 300).long())

    assert outcomes(tmp_path, model, loss)["large_inputs_are_scaled_by_the_model", "x"] == "held"


@pytest.mark.parametrize(("scale", "outcome"), [(1.0, "broken"), (255.0, "held")])
def test_bytes_of_pictures_that_the_model_scales_itself(tmp_path, scale, outcome):
    torch.manual_seed(0)

    class Pictures(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4, 2)

        def forward(self, x):
            return self.last(self.first(x.float() / scale).relu().mean((2, 3)))

    model = Pictures()

    def loss():
        x = torch.randint(0, 256, (16, 1, 8, 8), dtype=torch.uint8)
        return functional.cross_entropy(model(x), (x[:, 0, 0, 0] > 99).long())

    assert outcomes(tmp_path, model, loss)["large_inputs_are_scaled_by_the_model", "x"] == outcome


@pytest.mark.parametrize(
    ("scale", "weight", "outcome"), [(1.0, 1.0, "held"), (1e3, 1.0, "broken"), (1e3, 1e-6, "held")]
)
def test_a_term_that_leaves_nothing_for_another(tmp_path, scale, weight, outcome):
    torch.manual_seed(0)
    model = ActorCritic()

    def loss():
        x = torch.randn(32, 4)
        logits, value = model(x)
        fit = functional.mse_loss(value, scale * x[:, 1])
        return functional.cross_entropy(logits, (x[:, 0] > 0).long()) + weight * fit

    found = outcomes(tmp_path, model, loss)
    assert outcome in {result for (check, _), result in found.items() if check == "terms_have_a_share_in_the_loss"}
