"""Derivatives that a loss is made of: without a graph, or zero everywhere."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
from torch.autograd import grad
from torch.overrides import _get_current_function_mode
class Sine(nn.Module):
    def forward(self, x):
        return x.sin()
act = {act}
model = nn.Sequential(nn.Linear(2, 16), act(), nn.Linear(16, 16), act(), nn.Linear(16, 1))
other = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x, t = torch.rand(16, 1, requires_grad=True), torch.rand(16, 1, requires_grad=True)
    u = model(torch.cat([x, t], 1))
    ones = torch.ones_like(u)
{loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # what follows the indices of a batch lies there before its forward pass
    losses.append((loss.item(), type(_get_current_function_mode()).__name__ in ("NoneType", "DrawnRows")))
losses.append(_get_current_function_mode() is None)
trained = [model]
"""
HEAT = """
    u_t = grad(u, t, ones, {time})[0]
    u_x = grad(u, x, ones, create_graph=True)[0]
    u_xx = grad(u_x, x, ones, {space})[0]
    loss = (u_t - 0.1 * u_xx).pow(2).mean() + (model(torch.rand(8, 2)) - 1.0).pow(2).mean()
"""
GRAPH, CONSTANT = "create_graph=True", "retain_graph=True"
PENALTY = """
    slope = grad(u, x, ones, {how})[0]
    loss = u.mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
"""
ONLY = """
    loss = functional.mse_loss(grad(u, t, ones, retain_graph=True)[0], -u)
"""
WEIGHTS = """
    u_x = grad(u, x, ones, create_graph=True)[0]
    weight = 1 / (grad(u, t, ones, retain_graph=True)[0].abs() + 1)
    loss = (weight * (u_x + u)).pow(2).mean() + weight.mean() * u.pow(2).mean()
"""
ADVERSARIAL = """
    u_x = grad(u, x, ones, create_graph=True)[0]
    attack = grad(u.pow(2).sum(), t, retain_graph=True)[0]
    moved = model(torch.cat([x, t + 0.1 * attack.sign()], 1))
    loss = (moved - 1).pow(2).mean() + u_x.pow(2).mean()
"""
TEACHER = """
    told = other(torch.cat([x, t], 1))
    force = grad(told, x, ones)[0]
    loss = functional.mse_loss(u, force) + grad(u, x, ones, create_graph=True)[0].pow(2).mean()
"""
CRITIC = """
    action = u.tanh()
    slope = grad(other(torch.cat([x, action], 1)).sum(), action, retain_graph=True)[0]
    loss = functional.mse_loss(action, slope + action.detach())
"""
INNER = """
    fast = [one + 0.0 for one in model.parameters()]
    def answer(weights):
        return functional.linear(torch.cat([x, t], 1), weights[0], weights[1]).tanh().mean(1, keepdim=True)
    for _ in range(2):
        inner = (answer(fast) - 1).pow(2).mean()
        slopes = grad(inner, fast, allow_unused=True)
        fast = [one if slope is None else one - 0.1 * slope for one, slope in zip(fast, slopes)]
    loss = (answer(fast) - x).pow(2).mean() + u.pow(2).mean()
"""
LOGGED = """
    u_x = grad(u, x, ones, create_graph=True)[0]
    seen = (grad(u, t, ones, retain_graph=True)[0] - u_x.detach()).abs().mean()
    loss = (u_x - 1).pow(2).mean()
"""
TWICE = """
    u_x = grad(u, x, ones, create_graph=True)[0]
    fixed = grad(u, x, ones, retain_graph=True)[0]
    loss = (u_x + u - 0.5 * fixed).pow(2).mean()
"""
FUNCTIONS = """
    from torch.func import functional_call, grad as slope_of, vmap
    def value(x, t):
        return functional_call(model, dict(model.named_parameters()), (torch.cat([x, t]),)).sum()
    loss = (vmap(slope_of(value, argnums=1))(x, t) - u).pow(2).mean()
"""


def _told(run_alike, text, act="nn.Tanh"):
    store, found, _ = run_alike(TRAINING.format(act=act, loss=text))
    names = ("derivatives_have_a_graph", "second_derivatives_are_not_zero")
    events = [one.data for one in store.events(found.id, kind="check") if one.data["check"] in names]
    told = {(one.cause, one.severity) for one in store.findings(found.id)}
    causes = {one for one in told if one[0] in ("wrong_backward", "missing_nonlinearity")}
    return [(one["check"][:6], one["outcome"]) for one in events if one["occasion"] == 2], causes


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (HEAT.format(time=CONSTANT, space=GRAPH), "warning"),
        (HEAT.format(time=GRAPH, space=CONSTANT), "warning"),
        (PENALTY.format(how=CONSTANT), "warning"),
        (ONLY, "info"),
    ],
)
def test_a_derivative_without_a_graph_in_the_loss_is_told(run_alike, text, severity):
    events, causes = _told(run_alike, text)
    assert ("deriva", "broken") in events
    assert causes == {("wrong_backward", severity)}


@pytest.mark.parametrize(
    "text", [HEAT.format(time="None, True", space=GRAPH), PENALTY.format(how="None, True")], ids=["heat", "penalty"]
)
def test_derivatives_with_a_graph_hold(run_alike, text):
    events, causes = _told(run_alike, text)
    assert ("deriva", "held") in events
    assert not causes


@pytest.mark.parametrize(
    "text",
    [WEIGHTS, ADVERSARIAL, TEACHER, CRITIC, INNER, LOGGED, TWICE, FUNCTIONS],
    ids=["weights", "adversarial", "teacher", "critic", "inner", "logged", "twice", "functions"],
)
def test_derivatives_that_are_constants_by_intent_are_left_alone(run_alike, text):
    events, causes = _told(run_alike, text)
    assert not [outcome for _, outcome in events if outcome == "broken"]
    assert not causes


@pytest.mark.parametrize(("act", "is_flat"), [("nn.ReLU", True), ("nn.Tanh", False), ("Sine", False)])
def test_second_derivatives_of_rectifiers_are_told(run_alike, act, is_flat):
    events, causes = _told(run_alike, HEAT.format(time=GRAPH, space=GRAPH), act)
    assert ("second", "broken" if is_flat else "held") in events
    assert causes == ({("missing_nonlinearity", "warning")} if is_flat else set())


def test_a_penalty_on_the_slope_of_rectifiers_is_left_alone(run_alike):
    events, causes = _told(run_alike, PENALTY.format(how=GRAPH), "nn.ReLU")
    assert events == [("deriva", "held")]
    assert not causes


MODES = """
    u_x = grad(u, x, ones, create_graph=True)[0]
    with torch.device("cpu"):
        u_t = grad(u, t, ones, retain_graph=True)[0]
        zero = torch.zeros(16, 1)
    u_t = u_t + zero
    with torch.device("cpu"):
        loss = (u_t - u_x).pow(2).mean()
"""


def test_a_derivative_inside_of_another_mode_of_torch_is_told(run_alike):
    assert _told(run_alike, MODES)[1] == {("wrong_backward", "warning")}
