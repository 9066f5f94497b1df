"""Facts of torch trainings are exact, told once and when they change, and leave nothing behind."""

import random
import warnings

import pytest
from mindscope.insight import diagnose
from mindscope.probe import check_causality, watch
from mindscope.probe.facts import NotASequence
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


class Language(nn.Module):
    """A model of tokens with tied weights, which looks ahead if it is told to."""

    def __init__(self, *, is_causal=True):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.body = nn.Embedding(13, 8), nn.GRU(8, 8, batch_first=True)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.1)
        self.head = nn.Linear(8, 13, bias=False)
        self.head.weight = self.embed.weight
        self.is_causal = is_causal

    def forward(self, tokens):
        hidden = self.drop(self.body(self.embed(tokens))[0])
        hidden = self.norm(hidden.transpose(1, 2)).transpose(1, 2)
        return self.head(hidden if self.is_causal else hidden + hidden.mean(1, keepdim=True))


def train(model, optimizer, steps=4, *, change=lambda logits: logits, before=lambda step: None, limit=1.0):
    torch.manual_seed(1)
    losses = []
    for step in range(steps):
        before(step)
        tokens = torch.randint(0, 13, (4, 9))
        logits = change(model(tokens[:, :-1]))
        loss = functional.cross_entropy(logits.reshape(-1, 13), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
        losses.append(loss.item())
    return losses


def adam(model):
    return torch.optim.AdamW(model.parameters(), 1e-3)


def recorded(model, optimizer, *, config=None, **options):
    store = open_store("memory:")
    with watch(model, optimizer, store=store, config=config) as monitor:
        losses = train(model, optimizer, **options)
    events = [event for record in store.replay(monitor.run.id) for event in record.events]
    return store, monitor.run.id, events, losses


def of_kind(events, kind):
    return [(event.step, dict(event.data)) for event in events if event.kind == kind]


def causes(store, run):
    return {finding.cause for finding in diagnose(store, run).findings}


def test_losses_weights_and_random_numbers_are_bit_identical_with_every_fact_asked_for():
    alone, watched = Language(), Language()
    expected = train(alone, adam(alone))
    after = torch.get_rng_state()
    _, _, events, losses = recorded(watched, adam(watched), config={"causality": True})
    assert losses == expected
    assert torch.equal(torch.get_rng_state(), after)
    assert all(
        torch.equal(a, b) for a, b in zip(alone.state_dict().values(), watched.state_dict().values(), strict=True)
    )
    assert not of_kind(events, "monitor_fault")


def test_a_healthy_training_has_its_facts_and_no_finding():
    model = Language()
    store, run, events, _ = recorded(model, adam(model), config={"causality": True}, limit=100.0)
    assert [data["domain"] for _, data in of_kind(events, "loss_input")] == ["logits"]
    assert of_kind(events, "shared_parameter") == [(0, {"sites": ["embed.weight", "head.weight"]})]
    assert of_kind(events, "optimizer_step_count")[0][1]["count"] == 0
    assert not of_kind(events, "resumed")
    assert of_kind(events, "causality")[0][1]["is_causal"] is True
    assert len(of_kind(events, "forward_modes")) == 1
    assert len(of_kind(events, "initial_checksum")[0][1]["parameters"]) == len(list(model.parameters()))
    assert causes(store, run) == set()


def test_the_norm_before_clipping_is_the_one_that_torch_returns():
    model = Language()
    store, run, events, _ = recorded(model, adam(model), steps=1, limit=1e-3)
    norm = store.series(run, "", "scalar/clip/norm").values[0]
    twin = Language()
    torch.manual_seed(1)
    tokens = torch.randint(0, 13, (4, 9))
    functional.cross_entropy(twin(tokens[:, :-1]).reshape(-1, 13), tokens[:, 1:].reshape(-1)).backward()
    assert norm == float(nn.utils.clip_grad_norm_(twin.parameters(), 1e-3))
    assert store.series(run, "", "scalar/clip/coefficient").values[0] == 1e-3 / norm
    assert of_kind(events, "clipping") == [(0, {"by": "norm", "limit": 1e-3})]


def test_a_softmax_before_cross_entropy_is_found_in_the_first_step():
    model = Language()
    store, run, events, _ = recorded(model, adam(model), steps=1, change=lambda logits: logits.softmax(-1))
    assert of_kind(events, "loss_input")[0][1]["domain"] == "probabilities"
    assert "loss_input_domain" in causes(store, run)


def test_evaluation_mode_in_the_middle_is_told_at_its_step_and_found():
    model = Language()
    store, run, events, _ = recorded(model, adam(model), before=lambda step: model.eval() if step == 2 else None)
    assert [step for step, _ in of_kind(events, "forward_modes")] == [0, 2]
    found = [one for one in diagnose(store, run).findings if one.cause == "wrong_train_eval_mode"]
    assert [one.first_step for one in found] == [2]


def test_a_frozen_part_in_evaluation_mode_is_named():
    model = Language()
    model.norm.eval()
    _, _, events, _ = recorded(model, adam(model), steps=1)
    assert of_kind(events, "forward_modes")[0][1]["forwards"][0]["sensitive_others"] == ["norm"]


def test_a_leak_from_later_positions_is_found_and_its_place_told():
    model = Language(is_causal=False)
    store, run, events, _ = recorded(model, adam(model), steps=1, config={"causality": True})
    fact = of_kind(events, "causality")[0][1]
    assert (fact["is_causal"], fact["first_output"]) == (False, 0)
    assert "data_leak" in causes(store, run)


def test_weights_that_were_tied_and_come_apart_are_found():
    model = Language()

    def untie(step):
        if step == 2:
            model.head.weight = nn.Parameter(model.embed.weight.detach().clone())

    store, run, events, _ = recorded(model, adam(model), before=untie)
    assert of_kind(events, "tie_broken") == [(2, {"sites": ["embed.weight", "head.weight"]})]
    assert "shared_parameter_error" in causes(store, run)


def test_a_resumed_optimizer_says_how_far_it_was():
    model = Language()
    optimizer = adam(model)
    train(model, optimizer, 3)
    _, _, events, _ = recorded(model, optimizer, steps=2)
    assert of_kind(events, "resumed")[0][1] == {
        "optimizer": 0,
        "optimizer_kind": "AdamW",
        "count": 3,
        "slots": ["exp_avg", "exp_avg_sq"],
    }


def test_a_second_moment_that_is_lost_makes_updates_that_adam_cannot_make():
    model = Language()
    optimizer = adam(model)
    train(model, optimizer, 20)

    def lose(step):
        if step == 2:
            for state in optimizer.state.values():
                state["exp_avg_sq"].zero_()

    store, run, _, _ = recorded(model, optimizer, before=lose)
    found = [one for one in diagnose(store, run).findings if one.cause == "optimizer_state_stale"]
    assert found
    assert {one.first_step for one in found} == {2}


def test_a_count_that_goes_back_is_told():
    model = Language()
    optimizer = adam(model)
    _, _, events, _ = recorded(model, optimizer, before=lambda step: optimizer.state.clear() if step == 3 else None)
    lost = {"optimizer": 0, "count": 0, "count_before": 3, "is_another": False}
    assert of_kind(events, "optimizer_state_lost") == [(3, lost)]


def test_the_check_leaves_flags_buffers_and_generators_as_they_were():
    model = Language()
    model.train()
    model.drop.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tokens = torch.randint(0, 13, (2, 6))
    states = torch.get_rng_state(), random.getstate()
    found = check_causality(model, tokens)
    assert found.is_causal is True
    assert (model.training, model.drop.training, model.norm.training) == (True, False, True)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


def test_a_model_that_works_position_by_position_is_neither():
    assert check_causality(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.randn(2, 5, 4)).is_causal is None


def test_a_sample_without_positions_is_an_error_that_says_so():
    with pytest.raises(NotASequence, match="batch, positions"):
        check_causality(nn.Linear(4, 3), torch.randn(2, 4))
    with pytest.raises(NotASequence, match="no axis of the positions"):
        check_causality(nn.Sequential(nn.Flatten(), nn.Linear(8, 3)), torch.randn(1, 2, 4))


def test_torch_is_as_it_was_after_the_last_monitor():
    places = [
        (functional, "cross_entropy"),
        (nn.utils, "clip_grad_value_"),
        (nn.utils.clip_grad, "_clip_grads_with_norm_"),
    ]
    before = [getattr(owner, name) for owner, name in places]
    model = Language()
    for _ in range(3):
        recorded(model, adam(model), steps=1)
    assert [getattr(owner, name) for owner, name in places] == before


def test_a_watched_loss_can_still_be_scripted():
    model = Language()
    with watch(model, adam(model), store=open_store("memory:")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of scripting as such
            scripted = torch.jit.script(nn.CrossEntropyLoss())
        x, y = torch.randn(3, 4), torch.tensor([0, 1, 2])
        assert scripted(x, y) == nn.CrossEntropyLoss()(x, y)


def test_the_run_remembers_where_it_ran(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("HF_TOKEN", "a secret")
    model = Language()
    store, run, _, _ = recorded(model, adam(model), steps=1)
    host = store.find_run(run).host
    assert host["packages"]["torch"] == torch.__version__
    assert host["variables"]["OMP_WAIT_POLICY"] == "passive"
    assert "secret" not in str(host)
    assert host["devices"]["threads"] == torch.get_num_threads()
