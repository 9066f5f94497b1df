"""Masks that are off by one, answers that depend on the row of the batch, and batches of one sample."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

#: A layer of attention over tokens.
TOKENS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(9, 16), nn.Parameter(torch.randn(12, 16))
        self.attention, self.head = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 2)
    def forward(self, ids):
        x = self.tokens(ids) + self.places{placed}
        seen = torch.ones(12, 12).triu({hidden}).bool()
        return self.head(x + self.attention(x, x, x, attn_mask=seen)[0])
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(40):
    ids = torch.randint(0, 9, (10, 12))
    loss = functional.cross_entropy(model(ids).transpose(1, 2), (ids > 4).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


def _told(store, run):
    return {one.data["check"]: one.data["outcome"] for one in store.events(run.id, kind="check")}


@pytest.mark.parametrize(("hidden", "outcome"), [(1, "held"), (2, "broken"), (12, None)])
def test_a_mask_of_the_future(run_alike, hidden, outcome):
    store, run, _ = run_alike(TOKENS.format(hidden=hidden, placed=""))
    assert _told(store, run).get("the_future_begins_at_the_next_position") == outcome
    assert ("data_leak" in {one.cause for one in store.findings(run.id)}) == (outcome == "broken")


@pytest.mark.parametrize(("placed", "outcome"), [("", "held"), ("[:10, None]", "broken")])
def test_places_that_are_told_along_the_batch(run_alike, placed, outcome):
    store, run, _ = run_alike(TOKENS.format(hidden=1, placed=placed))
    assert _told(store, run).get("answers_do_not_depend_on_the_row") == outcome
    assert ("sample_mixing" in {one.cause for one in store.findings(run.id)}) == (outcome == "broken")


ROWS = """
model = net(4, 8, 2)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn({rows}, 4).expand(16, 4)
    loss = functional.cross_entropy(model(x), torch.randint(0, 2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(("rows", "outcome"), [(16, "held"), (1, "broken")])
def test_a_batch_of_one_sample(run_alike, rows, outcome):
    store, run, _ = run_alike(ROWS.format(rows=rows))
    assert _told(store, run).get("samples_differ") == outcome
    assert ("repeated_batch" in {one.cause for one in store.findings(run.id)}) == (outcome == "broken")


STATES = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.GRUCell(1, 8), nn.Linear(8, 2)
    def forward(self, x, state):
        return self.out(self.inner(x[:, None], state))
model = Cell()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    loss = functional.cross_entropy(model(torch.randn(16), torch.zeros(16, 8)), torch.randint(0, 2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


TOKENS_OF_A_START = """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(5, 8), nn.GRUCell(8, 8), nn.Linear(8, 2)
    def start(self, x):
        return self.out(self.cell(self.embed(torch.zeros(16, dtype=torch.long)), x))
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    loss = functional.cross_entropy(model.start(torch.randn(16, 8)), torch.randint(0, 2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


def test_a_token_that_all_samples_begin_with_is_no_batch_of_one_sample(run_alike):
    store, run, _ = run_alike(TOKENS_OF_A_START)
    assert "repeated_batch" not in {one.cause for one in store.findings(run.id)}


def test_a_state_that_begins_with_zeros_is_no_batch_of_one_sample(run_alike):
    store, run, _ = run_alike(STATES)
    assert "samples_differ" not in _told(store, run)


TURNS = """
maker, judge = net(3, 8, 2), net(2, 8, 1)
steps = torch.optim.Adam(judge.parameters(), 1e-3), torch.optim.Adam(maker.parameters(), 1e-3)
for step in range(12):
    for _ in range(3):
        made = maker(torch.randn(16, 3)).detach()
        loss = judge(made).mean() - judge(torch.randn(16, 2)).mean()
        steps[0].zero_grad()
        loss.backward()
        steps[0].step()
    loss = -judge(maker(torch.randn(16, 3))).mean()
    steps[1].zero_grad()
    loss.backward()
    steps[1].step()
    losses.append(loss.item())
trained = [maker, judge]
"""


def test_checks_are_not_lost_where_a_step_ends_late(run_alike):
    store, run, _ = run_alike(TURNS)
    first = min(
        one.step for one in store.events(run.id, kind="check") if one.data["check"] == "samples_are_independent"
    )
    assert first < 12


ENCODER = """
encode, decode = net(12, 16, 6), net(3, 16, 12)
model = nn.ModuleList([encode, decode])
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
data = torch.randn(256, 3) @ torch.randn(3, 12)
for step in range(160):
    x = data[torch.randint(0, 256, (64,))]
    mean, s = encode(x).chunk(2, 1)
    made = decode(mean + torch.exp(0.5 * s) * torch.randn_like(s))
    divergence = 0.5 * (mean**2 + s.exp() - s - 1).sum(1).mean()
    loss = functional.mse_loss(made, x) + {weight} * divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(("weight", "outcome"), [(0.01, "held"), (30.0, "broken")])
def test_a_code_that_comes_to_be_the_prior(run_alike, weight, outcome):
    store, run, _ = run_alike(ENCODER.format(weight=weight))
    assert _told(store, run).get("codes_differ_from_the_prior") == outcome
    assert ("collapsed_output" in {one.cause for one in store.findings(run.id)}) == (outcome == "broken")


WRITES = """
class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(4, 8, 2)
    def forward(self, given):
        given["hidden"] = self.body(given["x"])
        return given["hidden"] * 2.0
model = Keeps()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(16, 4)
    loss = functional.cross_entropy(model({"x": x}), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


def test_what_a_model_writes_into_its_input_is_no_input(run_alike):
    store, run, _ = run_alike(WRITES)
    checks = [one.data for one in store.events(run.id, kind="check") if one.data["check"] == "input_is_used"]
    assert {data["outcome"] for data in checks} == {"held"}
    assert "ignored_input" not in {one.cause for one in store.findings(run.id)}
