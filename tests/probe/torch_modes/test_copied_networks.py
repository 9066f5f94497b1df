"""Target networks and teachers: whether they follow the network that they are copies of."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.copied_networks import CopyHistory, pull_towards  # noqa: E402

TRAINING = """
import copy
network, head = net(3, 16, 2), nn.Linear(2, 2)
target = copy.deepcopy(network)
optimizer = torch.optim.Adam([*network.parameters(), *head.parameters()], 1e-2)
def follow(slow, fast, rate):
    with torch.no_grad():
        for one, other in zip(slow.parameters(), fast.parameters()):
            one.lerp_(other, rate)
for step in range(203):
    x = torch.randn(8, 3)
    with torch.no_grad():
        wanted = target(x)
    loss = functional.mse_loss(head(network(x)), wanted + x[:, :2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {follow}
    losses.append(loss.item())
trained = [network, head, target]
"""


def told(store, found):
    events = [one for one in store.events(found.id, kind="check") if one.data["check"] == "copy_follows_its_network"]
    broken = {one.data["subject"] for one in events if one.data["outcome"] == "broken"}
    serious = {one.site for one in store.findings(found.id) if one.cause == "stale_target" and one.severity != "info"}
    return broken, serious


@pytest.mark.parametrize(
    ("follow", "is_broken", "is_serious"),
    [
        ("follow(target, network, 0.005)", False, False),
        ("step % 30 or follow(target, network, 1.0)", False, False),
        ("follow(target, network, 0.00005)", True, True),
        ("follow(network, target, 0.05)", True, True),
        ("step % 25 == 24 and follow(network, target, 1.0)", True, True),
        # averaged with itself: multiplied by the rate first, and by what is left of it added
        ("[one.data.mul_(0.95).add_(one.data, alpha=0.05) for one in target.parameters()]", True, True),
        # a reference that stays, and a target that follows at once where no value is learned: questions
        ("pass", True, False),
        ("follow(target, network, 1.0)", True, False),
    ],
)
def test_a_copy_that_does_not_follow_is_told(run_alike, follow, is_broken, is_serious):
    store, found, _ = run_alike(TRAINING.format(follow=follow))
    assert told(store, found) == ({"target"} if is_broken else set(), {"target"} if is_serious else set())


@pytest.mark.parametrize(("rate", "is_told"), [(0.0001, True), (0.01, False)])
def test_an_average_for_the_evaluation_that_is_still_the_start_is_told(run_alike, rate, is_told):
    text = TRAINING.replace("wanted = target(x)", "wanted = 0.5 * x[:, :2]")
    store, found, _ = run_alike(text.format(follow=f"follow(target, network, {rate})"))
    (finding,) = [one for one in store.findings(found.id) if one.cause == "stale_target"] or [None]
    assert (finding is not None) == is_told
    if finding is not None:
        assert (finding.site, finding.severity) == ("target", "warning")
        assert "the average of network, has gone" in finding.explanation


def test_an_average_that_is_gone_when_the_training_ends_is_told(run_alike):
    text = TRAINING.replace("wanted = target(x)", "wanted = 0.5 * x[:, :2]").replace("range(203)", "range(260)")
    text = text.format(follow="follow(target, network, 0.0001)").replace("trained = [network, head, target]", "")
    lines = "".join(f"    {line}\n" for line in text.splitlines() if not line.startswith("import"))
    body = f"import copy\ndef train():\n{lines}    return [network, head]\ntrained = train()\n"
    store, found, _ = run_alike(body)
    (finding,) = [one for one in store.findings(found.id) if one.cause == "stale_target"]
    assert finding.explanation.startswith("target, the average of network, has gone")


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ("pass", True),
        ("[one.copy_(other) for one, other in zip(target.buffers(), network.buffers())]", False),
        ("target(x)", False),  # in training mode, it has statistics of its own
    ],
)
def test_an_average_with_the_running_statistics_of_the_start_is_told(run_alike, change, is_told):
    text = TRAINING.replace("net(3, 16, 2)", "nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.Linear(16, 2))")
    text = text.replace("wanted = target(x)", "wanted = 0.5 * x[:, :2]")
    store, found, _ = run_alike(text.format(follow=f"follow(target, network, 0.01); {change}"))
    findings = [one for one in store.findings(found.id) if one.cause == "stale_target"]
    assert [(one.site, one.severity) for one in findings] == ([("target", "warning")] if is_told else [])
    assert all("running statistics of its batch norms" in one.explanation for one in findings)


def test_layers_of_one_shape_are_no_copies(run_alike):
    store, found, _ = run_alike(
        TRAINING.replace("copy.deepcopy(network)", "net(3, 16, 2).requires_grad_(False)").format(follow="pass")
    )
    assert told(store, found) == (set(), set())


def test_a_pull_is_one_share_of_the_way_of_all_elements():
    before, copy = torch.randn(100).double(), torch.randn(100).double()
    assert pull_towards(before, before + 0.03 * (copy - before), copy) == pytest.approx(0.03)
    assert pull_towards(before, before.clone(), copy) is None
    assert pull_towards(before, before + 0.03 * torch.randn(100), copy) is None
    assert pull_towards(before, before - 0.03 * (copy - before), copy) is None


@pytest.mark.parametrize(("gone", "outcome"), [(0.0, "broken"), (1e-9, "broken"), (0.5, "held")])
def test_looks_at_steps_that_do_not_ask_the_copy_say_nothing_of_it(gone, outcome):
    """Optimizers may take turns, and the steps of one of them not ask the target of the other's network."""
    copy, network = torch.ones(4), torch.ones(4)
    history = CopyHistory("target", "network", copy.clone(), network.clone())
    results = []
    for look, is_asked in enumerate((True, False, True)):
        network = network + 0.5
        copy = copy + gone
        results.append(history.look(network, (copy, network), is_called=is_asked, is_asked=is_asked))
        assert results[-1] is None or look == 2
    assert results[-1].outcome == outcome


VALUES = """
import copy
network = net(3, 16, 2)
target = copy.deepcopy(network)
optimizer = torch.optim.Adam(network.parameters(), 1e-2)
for step in range(230):
    state = torch.randn(32, 3)
    following = {following}
    reward, action, ends = state[:, 0], torch.randint(0, 2, (32,)), (torch.rand(32) < 0.1).float()
    with torch.no_grad():
        wanted = reward + 0.9 * (1 - ends) * target(following).max(1).values
    loss = functional.mse_loss(network(state).gather(1, action[:, None])[:, 0], wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {follow}
    losses.append(loss.item())
trained = [network, target]
"""
MOVES = "state + 0.1 * torch.randn_like(state)"
COPIES = "step % 50 or target.load_state_dict(network.state_dict())"


@pytest.mark.parametrize(
    ("following", "follow", "words"),
    [
        (MOVES, COPIES, ""),
        ("state", COPIES, "the next state is the state itself"),
        ("torch.where(torch.rand(32, 1) < 0.03, state + 1, state)", COPIES, "the next state is the state itself"),
        # an environment in which most states stay
        ("torch.where(torch.rand(32, 1) < 0.5, state + 1, state)", COPIES, ""),
        (MOVES, "pass", "until the training ended"),
        (MOVES, "step % 200 or target.load_state_dict(network.state_dict())", ""),
    ],
)
def test_values_of_next_states_come_from_a_copy_that_follows(run_alike, following, follow, words):
    store, found, _ = run_alike(VALUES.format(following=following, follow=follow))
    told = [one for one in store.findings(found.id) if one.cause == "stale_target" and one.severity != "info"]
    assert [words in one.explanation for one in told] == ([True] if words else [])


SHADOW = """
network = net(3, 16, 2)
shadow = {{name: value.detach().clone() for name, value in network.state_dict().items()}}
optimizer = torch.optim.Adam(network.parameters(), 1e-2)
for step in range(260):
    x = torch.randn(8, 3)
    loss = functional.mse_loss(network(x), 0.5 * x[:, :2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for name, value in network.state_dict().items():
        shadow[name].lerp_(value, {rate})
    losses.append(loss.item())
{use}
network.eval()
trained = [network]
"""
LOADED = "network.load_state_dict(shadow)"
WRITTEN = "[one.data.copy_(shadow[name]) for name, one in network.named_parameters()]"


@pytest.mark.parametrize(
    ("rate", "use", "is_told"),
    [
        (0.0001, LOADED, True),
        (0.0001, WRITTEN, True),
        (0.02, LOADED, False),
        (0.0001, "", False),
        (0.0, LOADED, False),  # the very start, as where another training begins
    ],
)
def test_an_evaluation_with_an_average_that_is_still_the_start_is_told(run_alike, rate, use, is_told):
    store, found, _ = run_alike(SHADOW.format(rate=rate, use=use))
    told = [one for one in store.findings(found.id) if one.cause == "stale_target"]
    assert [one.severity for one in told] == ["warning"] * is_told
    assert all("is evaluated with weights that have gone" in one.explanation for one in told)


def test_another_training_from_the_same_start_is_no_average(run_alike):
    again = (
        f"{LOADED}\noptimizer = torch.optim.Adam(network.parameters(), 1e-3)\n"
        "for step in range(3):\n    optimizer.zero_grad()\n    functional.mse_loss(network(x), x[:, :2]).backward()\n"
        "    optimizer.step()\n"
    )
    store, found, _ = run_alike(SHADOW.format(rate=0.0, use=again))
    assert not [one for one in store.findings(found.id) if one.cause == "stale_target"]


def test_a_copy_that_follows_at_once_beside_one_that_lags_is_no_mistake(run_alike):
    """The target policy of actor and critic may be the actor itself, as long as its judge's target stays."""
    text = VALUES.replace(
        "target = copy.deepcopy(network)", "target, other = copy.deepcopy(network), copy.deepcopy(network)"
    )
    text = text.replace("trained = [network, target]", "trained = [network, target, other]")
    text = text.replace("target(following).max(1)", "(target(following) + 0 * other(following)).max(1)")
    both = "other.load_state_dict(network.state_dict()); step % 20 or target.load_state_dict(network.state_dict())"
    store, found, _ = run_alike(text.format(following=MOVES, follow=both))
    assert not [one for one in store.findings(found.id) if one.cause == "stale_target" and one.severity != "info"]
    alone = VALUES.format(following=MOVES, follow="target.load_state_dict(network.state_dict())")
    store, found, _ = run_alike(alone)
    assert [one.site for one in store.findings(found.id) if one.cause == "stale_target"] == ["target"]


def test_running_statistics_of_the_start_are_told_of_a_short_training_too(run_alike):
    text = TRAINING.replace("net(3, 16, 2)", "nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.Linear(16, 2))")
    text = text.replace("wanted = target(x)", "wanted = 0.5 * x[:, :2]").replace("range(203)", "range(120)")
    store, found, _ = run_alike(text.format(follow="follow(target, network, 0.05)"))
    (finding,) = [one for one in store.findings(found.id) if one.cause == "stale_target"]
    assert "running statistics of its batch norms" in finding.explanation
