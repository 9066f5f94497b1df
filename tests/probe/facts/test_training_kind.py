"""The kind of a training is recognised from what it calls, and the configuration may say otherwise."""

import pytest
from mindscope.insight import diagnose
from mindscope.probe import ConfigError
from mindscope.probe.facts.training_kind import KindFacts, recognised
from mindscope.storage import open_store
from mindscope.storage.training_kinds import KINDS, TrainingKind, kind_of_events
from mindscope.watching import run_script

FACTS = {
    "classification": KindFacts(steps=3, losses={"cross_entropy"}),
    "regression": KindFacts(steps=3, losses={"smooth_l1_loss"}),
    "language_model": KindFacts(steps=3, losses={"cross_entropy"}, has_tokens=True),
    "adversarial": KindFacts(steps=3, losses={"mse_loss"}, is_entangled=True),
    "autoencoder": KindFacts(steps=3, losses={"binary_cross_entropy"}, target_is_input=True),
    "diffusion": KindFacts(steps=3, losses={"mse_loss"}, target_is_noise=True),
    "flow": KindFacts(steps=3, fitted={"Normal"}),
    "policy": KindFacts(steps=3, drawn={"Categorical"}, scored={"Categorical"}),
    "value": KindFacts(steps=8, losses={"mse_loss"}, acting=6, judges=True),
    "preference": KindFacts(steps=3, functions={"logsigmoid"}),
    "contrastive": KindFacts(steps=3, losses={"cross_entropy"}, is_square=True),
    "meta": KindFacts(steps=3, losses={"mse_loss"}, differentiates_steps=True),
    "physics": KindFacts(steps=3, losses={"mse_loss"}, differentiates_input=True),
    "other": KindFacts(steps=3),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_tell_the_kind(name):
    found = recognised(FACTS[name])
    assert found.name == name
    assert (found.reasons == ()) is (name == "other")


def test_a_model_with_a_small_part_that_is_trained_is_not_called_frozen_whole():
    facts = KindFacts(steps=3, losses={"mse_loss"}, frozen_share=0.9962)
    assert "99.6% of the model's elements are frozen" in recognised(facts).reasons


@pytest.mark.parametrize(("written", "words"), [(set(), "mse_loss"), ({"mse_loss"}, "a squared error, written out")])
def test_a_loss_that_the_program_writes_out_has_no_name_of_a_function(written, words):
    found = recognised(KindFacts(steps=3, losses={"mse_loss"}, written=written))
    assert found.reasons == (f"the loss is {words}",)


def test_every_kind_has_facts_and_words():
    assert FACTS.keys() == KINDS.keys()
    assert (
        TrainingKind("policy", ("x",), is_full_batch=True).to_text()
        == "reinforcement learning (policy), full batch (x)"
    )
    assert TrainingKind().to_text() == ""


def test_the_same_tensors_are_a_full_batch_only_without_a_loader():
    assert recognised(KindFacts(steps=5, same=3)).is_full_batch
    assert not recognised(KindFacts(steps=5, same=3, has_loader=True)).is_full_batch


HEAD = """
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, softmax
torch.manual_seed(0)
def net(i, o): return nn.Sequential(nn.Linear(i, 8), nn.Tanh(), nn.Linear(8, o))
def descend(loss):
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
ONE = "model = net({i}, {o})\noptimizer = torch.optim.Adam(model.parameters(), 1e-3)\nfor _ in range(12):\n"
SCRIPTS = {
    "classification": ONE.format(i=4, o=3)
    + "    descend(cross_entropy(model(torch.randn(8, 4)), torch.arange(8) % 3))",
    "regression": ONE.format(i=4, o=1)
    + "    x = torch.randn(8, 4)\n    descend((model(x) - x.sum(1, True)).pow(2).mean())",
    "policy": ONE.format(i=4, o=2)
    + """
    states = torch.randn(8, 4)
    choice = torch.distributions.Categorical(logits=model(states))
    action = choice.sample()
    descend(-(choice.log_prob(action) * (action == 0)).mean())
""",
    "value": ONE.format(i=4, o=2)
    + """
    with torch.no_grad():
        action = model(torch.randn(1, 4)).argmax()
    chosen = model(torch.randn(8, 4)).gather(1, torch.zeros(8, 1, dtype=torch.long)).squeeze(1)
    descend(mse_loss(chosen, torch.rand(8)))
""",
    "autoencoder": ONE.format(i=4, o=4) + "    x = torch.randn(8, 4)\n    descend(mse_loss(model(x), x))",
    "diffusion": """
class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net(17, 16)
    def forward(self, x, t):
        return self.inner(torch.cat([x, t[:, None]], 1))
model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(12):
    x, t, noise = torch.rand(32, 16), torch.rand(32), torch.randn(32, 16)
    descend(mse_loss(model((1 - t[:, None]) * x + t[:, None] * noise, t), noise))
""",
    "contrastive": ONE.format(i=4, o=4)
    + """
    x = torch.randn(8, 4)
    left, right = model(x + 0.1 * torch.randn(8, 4)), model(x + 0.1 * torch.randn(8, 4))
    descend(cross_entropy(left @ right.T, torch.arange(8)))
""",
    "language_model": """
class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
    def forward(self, tokens):
        return self.head(self.embed(tokens))
model = Text()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(12):
    tokens = torch.randint(0, 11, (4, 9))
    descend(cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()))
""",
    "physics": ONE.format(i=1, o=1)
    + """
    x = torch.rand(8, 1, requires_grad=True)
    y = model(x)
    slope = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    descend((slope + y).square().mean())
""",
}


def record(folder, text, config=None):
    (folder / "train.py").write_text(HEAD + text)
    if config:
        (folder / "monitor.yaml").write_text(config)
    assert (
        run_script(folder / "train.py", [], store=folder / "runs", config=folder / "monitor.yaml" if config else None)
        == 0
    )
    store = open_store(folder / "runs")
    return store, store.find_run("latest").id


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_recognised_whatever_its_spelling(tmp_path, name):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    store, run = record(tmp_path, SCRIPTS[name])
    found = kind_of_events(store.events(run, kind="training_kind"))
    assert (found.name, found.is_full_batch, found.is_given) == (name, False, False)
    assert f"kind: {KINDS[name]}" in diagnose(store, run).to_text()


COLUMNS = """
places = torch.rand(8, 2)
x, t = places[:, :1].clone().requires_grad_() * 1.0, places[:, 1:].clone().requires_grad_()
"""
SLOPES = """
    u = model(torch.cat([x, t], 1))
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    descend((u_t + u * u_x).square().mean())
"""


def test_columns_that_are_joined_to_an_input_are_part_of_it(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = (
        COLUMNS
        + ONE.format(i=2, o=1)
        + SLOPES.replace("    u = ", "    x, t = x.detach().requires_grad_() * 1.0, t\n    u = ")
    )
    store, run = record(tmp_path, text)
    assert kind_of_events(store.events(run, kind="training_kind")).name == "physics"


SERIES = """
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = net(48, 48)
    def forward(self, x, marks):
        return self.inner(x) + 0.0 * marks.mean()
model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
times = torch.arange(4096.0)
series = torch.sin(times / 7) + torch.sin(times / 31)
series = (series - series.mean()) / series.std()
for step in range(12):
    at = torch.arange(64)[:, None] * 53 + torch.arange(96) + step
    window = series[at]
    descend(mse_loss(model(window[:, :48], at[:, :48] / 4096.0), window[:, 48:]))
"""
GRAPH = """
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
    def forward(self, x, edges):
        return torch.sparse.mm(edges, self.inner(x)).log_softmax(1)
model = Graph()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
x, labels = torch.randn(20, 4), torch.arange(20) % 3
edges = torch.eye(20).to_sparse()
for step in range(12):
    descend(nn.functional.nll_loss(model(x, edges)[:12], labels[:12]))
"""


def test_standardised_series_are_no_noise(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    store, run = record(tmp_path, SERIES)
    assert kind_of_events(store.events(run, kind="training_kind")).name == "regression"


def test_a_sparse_matrix_is_given_whole(tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    store, run = record(tmp_path, GRAPH)
    found = kind_of_events(store.events(run, kind="training_kind"))
    assert (found.name, found.is_full_batch) == ("classification", True)
    assert "Traceback" not in capsys.readouterr().err


WHOLE = ONE.format(i=4, o=1).replace("for", "x, y = torch.randn(8, 4), torch.randn(8, 1)\nfor")
SLICE = WHOLE.replace("torch.randn(8, 4)", "torch.randn(64, 4)[:8]")
LOADED = WHOLE.replace(
    "x, y = torch.randn(8, 4), torch.randn(8, 1)",
    "data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
    "x, y = next(iter(torch.utils.data.DataLoader(data, 8)))",
)


@pytest.mark.parametrize(("text", "is_full"), [(WHOLE, True), (SLICE, False), (LOADED, False)])
def test_all_data_at_once_is_told_from_a_batch_that_is_repeated(tmp_path, text, is_full):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    store, run = record(tmp_path, text.replace("(12)", "(20)") + "    descend(mse_loss(model(x), y))")
    assert kind_of_events(store.events(run, kind="training_kind")).is_full_batch is is_full
    assert ("repeated_batch" in {found.cause for found in diagnose(store, run).findings}) is not is_full


TAGGER = """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 5)
    def forward(self, tokens):
        return self.head(self.embed(tokens))
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(12):
    tokens = torch.randint(1, 11, (4, 9))
    tokens[:, 4:] = 0
    descend(cross_entropy(model(tokens).flatten(0, 1), ((3 * tokens + 1) % 5).flatten()))
"""
MASKED = """
model = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 11))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(12):
    tokens = torch.randint(0, 11, (8, 9))
    hidden = torch.rand(8, 9) < 0.3
    logits = model(tokens.masked_fill(hidden, 11))
    descend(cross_entropy(logits.flatten(0, 1), tokens.masked_fill(~hidden, -100).flatten()))
"""
TIME_FIRST = (
    SCRIPTS["language_model"].replace("(4, 9)", "(9, 4)").replace("[:, :-1]", "[:-1]").replace("[:, 1:]", "[1:]")
)
WORDS = """
from torch.nn.functional import logsigmoid
model = nn.Embedding(11, 8)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(12):
    word, near, other = (model(torch.randint(0, 11, (32,))) for _ in range(3))
    descend(-(logsigmoid((word * near).sum(1)) + logsigmoid(-(word * other).sum(1))).mean())
"""
PAIRS = (
    ONE.format(i=4, o=1)
    + """
    better, worse = model(torch.randn(8, 4) + 1), model(torch.randn(8, 4))
    descend(-nn.functional.logsigmoid(0.5 * (better - worse)).mean())
"""
)
CHAIN = (
    ONE.format(i=4, o=3)
    + """
    scores, labels = model(torch.randn(8, 4)), torch.arange(8) % 3
    mask = (torch.arange(8) < 6).float()
    descend(((scores.logsumexp(1) - scores.gather(1, labels[:, None])[:, 0]) * mask).sum())
"""
)
FREEZING = """
model = net(4, 3)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(16):
    if step == 4:
        model[0].requires_grad_(False)
        optimizer = torch.optim.Adam(model[2].parameters(), 1e-3)
    if step == 8:
        model[0].requires_grad_(True)
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    descend(cross_entropy(model(torch.randn(8, 4)), torch.arange(8) % 3))
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (TAGGER, "classification"),  # a label for every token, which is no token
        (MASKED, "language_model"),
        (TIME_FIRST, "language_model"),
        (WORDS, ""),  # two log-sigmoids, neither of a difference
        (PAIRS, "preference"),
        (CHAIN, "classification"),  # a mask is no return
        (FREEZING, "classification"),  # optimizers that follow each other are no opponents
    ],
)
def test_what_looks_alike_is_told_apart(tmp_path, text, name):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    store, run = record(tmp_path, text)
    assert kind_of_events(store.events(run, kind="training_kind")).name == name


def test_the_configuration_has_the_last_word(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    store, run = record(tmp_path, SCRIPTS["regression"], "kind: value")
    found = kind_of_events(store.events(run, kind="training_kind"))
    assert (found.name, found.to_text()) == ("value", "reinforcement learning (value) (set by the configuration)")
    with pytest.raises(ConfigError, match="did you mean 'value'"):
        record(tmp_path, SCRIPTS["regression"], "kind: valeu")


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"judges": True}, "value"),  # a critic that is fitted, and an actor that it teaches
        ({"judges": True, "constants": {1.0}}, "adversarial"),  # a judge that is taught true and false
        ({"has_slow_critic": True}, "value"),  # written out, so that nobody sees what its answers are compared with
        ({"has_slow_critic": True, "losses": {"binary_cross_entropy"}}, "adversarial"),
        ({}, "adversarial"),
        ({"judges": True, "losses": {"mse_loss", "binary_cross_entropy"}}, "adversarial"),
    ],
)
def test_a_critic_that_is_fitted_to_numbers_is_no_opponent(facts, name):
    assert recognised(KindFacts(**{"steps": 3, "losses": {"mse_loss"}, "is_entangled": True, **facts})).name == name


def test_a_regression_that_is_evaluated_on_a_few_samples_in_each_step_is_none_of_values():
    assert recognised(KindFacts(steps=8, losses={"mse_loss"}, acting=8)).name == "regression"
