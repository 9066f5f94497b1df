"""How the modules of a step are called: layers in each other's place, views that are one, targets that are no copy."""

import pytest
from mindscope.insight import diagnose
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn

TWO_LAYERS = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mean, self.spread, self.last = net(4, 8), nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(3, 3)
        self.experts = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    def forward(self, x):
        h = self.body(x)
        {forward}
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(8, 4)
    loss = functional.mse_loss(model(x), x[:, 1:].sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
_REST = "return self.experts[1](self.experts[0](self.last({})))"


@pytest.mark.parametrize(
    ("forward", "severity"),
    [
        (f"a, b = self.mean(h), self.spread(h); {_REST.format('a + b.tanh()')}", None),
        (f"a, b = self.mean(h), self.mean(h); {_REST.format('a + b.tanh()')}", "warning"),
        # weights that two inputs share, and a layer that is left over
        (f"a, b = self.mean(h), self.mean(h + 1); {_REST.format('a + b.tanh()')}", "info"),
        (f"a = self.mean(h); {_REST.format('a')}", "info"),
        # a layer that is used without a call, an expert that nothing is sent to
        (
            f"a, b = self.mean(h), self.mean(h); a = a + functional.linear(h, self.spread.weight, self.spread.bias);"
            f"{_REST.format('a + b.tanh()')}",
            None,
        ),
        ("a = self.last(self.mean(h) + self.spread(h)); return self.experts[0](a) + self.experts[0](a)", "info"),
    ],
)
def test_a_layer_that_is_called_in_the_place_of_its_twin_is_told(run_alike, forward, severity):
    store, found, _ = run_alike(TWO_LAYERS.format(forward=forward))
    told = [one for one in store.findings(found.id) if one.cause == "frozen_parameter"]
    assert {one.severity for one in told} == ({severity} if severity else set())
    assert ("mean twice" in "".join(one.explanation for one in told)) == (
        "self.mean(h), self.mean(" in forward and bool(told)
    )


VIEWS = """
import copy
class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.predictor = nn.Sequential(net(4, 8, 8), nn.Dropout({dropout})), net(8, 8)
        self.target = {target}
        self.target.requires_grad_(False)
    def forward(self, x, y):
        {forward}
model = Siamese()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-2)
points = torch.randn(16, 4)
for step in range(30):
    x = torch.randn(16, 4)
    y = {second}
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
    losses.append(loss.item())
trained = [model]
"""
MOMENTUM = (
    "p, q = self.predictor(self.online(x)), self.predictor(self.online(y))\n"
    "        with torch.no_grad():\n"
    "            s, t = self.target(x), self.target(y)\n"
    "        return 2 - functional.cosine_similarity(p, t).mean() - functional.cosine_similarity(q, s).mean()"
)
SIMPLE = (
    "a, b = self.online(x), self.online(y)\n"
    "        p, q = self.predictor(a), self.predictor(b)\n"
    "        alike = functional.cosine_similarity\n"
    "        return -alike(p, b.detach()).mean() - alike(q, a.detach()).mean()"
)
RIGHT = {
    "dropout": 0.0,
    "target": "copy.deepcopy(self.online)",
    "forward": MOMENTUM,
    "second": "x + 0.1 * torch.randn_like(x)",
    "loss": "loss = model(x, y)",
    "after": "[a.data.lerp_(b.data, 0.1) for a, b in zip(model.target.parameters(), model.online.parameters())]",
}
PLAIN = {"forward": "return self.predictor(self.online(x))", "second": "x.sin().sum(1, keepdim=True)", "after": "pass"}
ROWS = (
    "z = functional.normalize(torch.cat([model.online(x), model.online(y)]), dim=1)\n"
    "    loss = functional.cross_entropy(z @ z.T / 0.5 - 9 * torch.eye(len(z)), torch.arange(len(z)).roll(len(z) // 2))"
)
TAUGHT = "functional.mse_loss(model.online(x), torch.no_grad()(model.target)(x) + k)"
CHECKPOINT = (
    "from torch.utils.checkpoint import checkpoint\n"
    "        return checkpoint(lambda z: self.predictor(self.online(z)), x, use_reentrant={})"
)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, None),
        ({"second": "x"}, "warning"),
        ({"second": "x.clone()"}, "warning"),
        ({"second": "x.clone()", "dropout": 0.5}, None),
        ({"forward": SIMPLE}, None),
        ({"forward": SIMPLE, "second": "x"}, "warning"),
        # two losses that call a student and its teacher each for themselves
        ({"second": "x", "loss": f"loss = sum({TAUGHT} for k in (0, 1))"}, "info"),
        # a judge of what a generator makes, for the one and for the other
        (
            PLAIN
            | {
                "loss": "fake = model.predictor(torch.randn(16, 8))[:, :4]\n"
                "    loss = model.online(fake.detach()).mean() - 0.5 * model.online(fake).mean()"
            },
            None,
        ),
        # an answer for the loss and one for the log; the same points for two terms; regularised dropout
        (PLAIN | {"loss": "loss = functional.mse_loss(model(x, y)[:, :1], y); model(x, y).mean().item()"}, None),
        (PLAIN | {"loss": "loss = functional.mse_loss(model(x, y)[:, :1], y) + model(x, y).pow(2).mean()"}, None),
        (
            PLAIN
            | {"dropout": 0.1, "loss": "loss = functional.mse_loss(model(x, y), model(x, y)) + model(x, y).mean()"},
            None,
        ),
        # a network whose value is multiplied by its own slope
        (
            PLAIN
            | {
                "loss": "x.requires_grad_()\n"
                "    slope = torch.autograd.grad(model(x, y).sum(), x, create_graph=True)[0]\n"
                "    loss = (model(x, y)[:, :4] * model(x, y)[:, :4] * slope - y).pow(2).mean()"
            },
            None,
        ),
        # all rows beside all rows: of two views that are one, of two views, and of features beside each other
        (PLAIN | {"loss": ROWS, "second": "x"}, "warning"),
        (PLAIN | {"loss": ROWS, "second": "x + 0.1"}, None),
        (PLAIN | {"loss": "z = model.online(x)\n    loss = functional.cross_entropy(z @ z.T, torch.arange(16))"}, None),
        # queries and keys from one network
        ({"forward": "h = x + y; return (self.online(h) * self.online(h)).mean()", "after": "pass"}, None),
        (PLAIN | {"forward": CHECKPOINT.format(True), "loss": "loss = model(x.requires_grad_(), y).mean()"}, None),
        (PLAIN | {"forward": CHECKPOINT.format(False), "loss": "loss = model(x, y).mean()"}, None),
    ],
)
def test_two_views_that_are_one_are_told(run_alike, change, told):
    store, found, _ = run_alike(VIEWS.format(**{**RIGHT, **change}))
    severities = [one.severity for one in store.findings(found.id) if one.cause == "repeated_batch"]
    assert severities == ([told] if told in ("warning", "info") else [])
    assert not [one for one in store.findings(found.id) if "torch.no_grad" in one.explanation]


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ({"target": "self.online", "after": "pass"}, True),
        (
            {
                "target": "self.online",
                "after": "pass",
                "forward": MOMENTUM.replace("s, t = self.target(x), ", "s = t = "),
            },
            True,
        ),
        # a frozen network under two names, and evaluations in training mode
        (
            PLAIN
            | {
                "target": "self.online",
                "loss": "loss = functional.mse_loss(model(x, y)[:, :1], y)\n    with torch.no_grad(): model(x, y)",
            },
            False,
        ),
        # a frozen network of features, which a picture is compared in
        (
            PLAIN
            | {
                "forward": "return self.target(self.predictor(self.online(x)) @ torch.ones(8, 4))",
                "loss": "loss = functional.mse_loss(model(x, y)[:, :1], y)\n    with torch.no_grad(): model.target(x)",
            },
            False,
        ),
    ],
)
def test_a_target_that_is_the_frozen_network_itself_is_told(run_alike, change, is_told):
    store, found, _ = run_alike(VIEWS.format(**{**RIGHT, **change}))
    told = [one for one in store.findings(found.id) if "inside torch.no_grad, there as" in one.explanation]
    assert [(one.site, one.severity) for one in told] == [("online", "warning")] * is_told


@pytest.mark.parametrize("written", ["nothing", "an average", "gradients"])
def test_a_network_of_the_optimizer_that_is_called_without_gradients_only(tmp_path, written):
    """The second pass of a cached gradient is left out for one of two towers; an average is written by other means."""
    torch.manual_seed(0)
    query, item = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(2))
    both = nn.ModuleDict({"query": query, "item": item})
    optimizer = torch.optim.Adam(both.parameters(), 1e-3)
    store = open_store(tmp_path / "runs")
    with watch(both, optimizer, store=store) as monitor:
        for _ in range(50):
            x = torch.randn(16, 4)
            with torch.no_grad():
                cached = item(x + 0.1)
            cached.requires_grad_(True)
            loss = nn.functional.cross_entropy(query(x) @ cached.T, torch.arange(16))
            optimizer.zero_grad()
            loss.backward()
            if written == "gradients":
                item(x + 0.1).backward(cached.grad)
            optimizer.step()
            if written == "an average":
                with torch.no_grad():
                    for one, other in zip(item.parameters(), query.parameters(), strict=True):
                        one.lerp_(other, 0.01)
    causes = {(one.cause, one.site, one.severity) for one in diagnose(store, monitor.run.id).findings}
    assert (("frozen_parameter", "item", "warning") in causes) == (written == "nothing")
