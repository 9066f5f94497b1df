"""What a generator and its judge are told: targets of the judge, and data that a tanh can reach."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
{networks}
opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce, ones, zeros = nn.BCEWithLogitsLoss(), torch.ones(32, 1), torch.zeros(32, 1)
data = torch.randn(256, 2).clamp(-2, 2) / 2
for step in range(30):
    real, noise = data[torch.randint(0, 256, (32,))], torch.randn(32, 4)
{loss}
trained = [G, D]
"""
PLAIN = """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh())
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
"""
GAN = """
    fake = G(noise)
    d_loss = {fit}(D({scale} * real), ones) + {fit}(D(fake.detach()), {told})
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = {fit}(D(G(noise)), ones)
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    losses.append(d_loss.item())
"""
RELATIVISTIC = """
    fake = G(noise)
    d_loss = bce(D(real) - D(fake.detach()), ones) + bce(D(real.flip(0)) - D(fake.detach()), ones)
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = bce(D(G(noise)) - D(real), ones)
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    losses.append(d_loss.item())
"""
WRITTEN = """
    fake = G(noise)
    d_loss = bce(D(real), ones) + bce(D(real.flip(0) * 0.9), ones) + functional.softplus(D(fake.detach())).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = bce(D(G(noise)), ones)
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    losses.append(d_loss.item())
"""
FILLED = """
    label = torch.full((32, 1), 1.0)
    fake = G(noise)
    opt_d.zero_grad()
    bce(D(real), label).backward()
    label.fill_({told})
    d_loss = bce(D(fake.detach()), label)
    d_loss.backward()
    opt_d.step()
    label.fill_(1.0)
    opt_g.zero_grad()
    bce(D(fake), label).backward()
    opt_g.step()
    losses.append(d_loss.item())
"""
RARE = """
    opt_d.zero_grad()
    opt_g.zero_grad()
    for part in real.chunk(4):
        loss = bce(D(part), zeros[:8]) + bce(D(part + 0.1 * G(noise[:8]).detach()), zeros[:8])
        (loss + G(noise).pow(2).mean()).backward()
    opt_d.step()
    opt_g.step()
    losses.append(loss.item())
"""
JUDGE, DATA, TARGETS = "judge_gets_two_targets", "generator_can_reach_the_data", "targets_can_be_reached"


def _told(run_alike, loss, networks=PLAIN):
    store, found, _ = run_alike(TRAINING.format(networks=networks, loss=loss))
    events = [one.data for one in store.events(found.id, kind="check") if one.data["check"] in (JUDGE, DATA, TARGETS)]
    causes = ("uninformative_labels", "loss_input_domain")
    told = [one.cause for one in store.findings(found.id) if one.cause in causes and one.severity != "info"]
    return {(one["check"], one["outcome"]) for one in events if one["occasion"] == 2}, told


@pytest.mark.parametrize("fit", ["bce", "functional.mse_loss"])
@pytest.mark.parametrize(
    ("told", "scale", "causes"),
    [("zeros", 1, []), ("ones", 1, ["uninformative_labels"]), ("zeros", 4, ["loss_input_domain"])],
)
def test_what_a_judge_is_told_and_given(run_alike, told, scale, causes, fit):
    events, found = _told(run_alike, GAN.format(told=told, scale=scale, fit=fit))
    assert found == causes
    assert (JUDGE, "broken" if told == "ones" else "held") in events
    assert (DATA, "broken" if scale == 4 else "held") in events


@pytest.mark.parametrize(("told", "causes"), [("0.0", []), ("1.0", ["uninformative_labels"])])
def test_targets_that_are_filled_again(run_alike, told, causes):
    assert _told(run_alike, FILLED.format(told=told))[1] == causes


SIGMOID = PLAIN.replace("nn.Linear(16, 1))", "nn.Linear(16, 1), nn.Sigmoid())")


def test_a_judge_with_a_sigmoid_of_its_own(run_alike):
    loss = GAN.format(told="ones", scale=1, fit="functional.binary_cross_entropy")
    assert _told(run_alike, loss, SIGMOID)[1] == ["uninformative_labels"]


@pytest.mark.parametrize("loss", [RELATIVISTIC, WRITTEN, RARE], ids=["relativistic", "written", "rare"])
def test_targets_that_are_alike_by_intent_or_by_chance_are_left_alone(run_alike, loss):
    events, found = _told(run_alike, loss)
    assert (JUDGE, "broken") not in events
    assert not found


RESIDUAL = PLAIN.replace("nn.Tanh())", "nn.Tanh(), nn.Linear(2, 2))")


def test_a_generator_without_a_bound_reaches_any_data(run_alike):
    events, found = _told(run_alike, GAN.format(told="zeros", scale=9, fit="bce"), RESIDUAL)
    assert not {check for check, _ in events} & {DATA}
    assert not found


ACTORS = """
    action = G(noise)
    past = torch.cat([3 * real, noise], 1)
    d_loss = functional.mse_loss(D(torch.cat([3 * real, noise], 1)), zeros)
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = -D(torch.cat([action, noise], 1)).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    losses.append(g_loss.item())
"""
SHARED = """
    loss = functional.mse_loss(D(G(noise)), zeros) + functional.mse_loss(D(5 * real), ones)
    opt_d.zero_grad()
    opt_g.zero_grad()
    loss.backward()
    opt_d.step()
    opt_g.step()
    losses.append(loss.item())
"""
CRITIC = PLAIN.replace("D = nn.Sequential(nn.Linear(2,", "D = nn.Sequential(nn.Linear(6,")


@pytest.mark.parametrize(("loss", "networks"), [(ACTORS, CRITIC), (SHARED, PLAIN)], ids=["critic", "shared head"])
def test_networks_that_share_a_layer_and_no_judge_are_left_alone(run_alike, loss, networks):
    events, found = _told(run_alike, loss, networks)
    assert not events & {(JUDGE, "broken"), (DATA, "broken")}
    assert not found


FIT = """
    answer = G(noise)
    d_loss = D(real).pow(2).mean()
    g_loss = {fit}
    opt_d.zero_grad()
    opt_g.zero_grad()
    (d_loss + g_loss).backward()
    opt_d.step()
    opt_g.step()
    losses.append(g_loss.item())
"""


@pytest.mark.parametrize(
    ("fit", "outcome"),
    [
        ("functional.mse_loss(answer, 3 * real)", "broken"),
        ("functional.l1_loss(answer, real)", "held"),
        ("functional.smooth_l1_loss(answer.view(-1), 3 * real.view(-1))", "broken"),
        ("functional.mse_loss(2 * answer, 3 * real)", None),
    ],
)
def test_targets_beyond_a_tanh(run_alike, fit, outcome):
    events, found = _told(run_alike, FIT.format(fit=fit))
    assert {result for check, result in events if check == TARGETS} == ({outcome} if outcome else set())
    assert found == (["loss_input_domain"] if outcome == "broken" else [])


ALONE = """
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.{kind}())
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(32, 4)
    loss = ((model(x) - {target}) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(
    ("kind", "target", "is_told"),
    [
        ("Sigmoid", "x[:, :2]", True),
        ("Sigmoid", "(x[:, :2] > 0).float()", False),
        ("ReLU", "(x[:, :2].square() - 1)", True),
        ("ReLU", "x[:, :2].square()", False),
    ],
)
def test_a_squared_error_that_is_written_out(run_alike, kind, target, is_told):
    store, found, _ = run_alike(ALONE.format(kind=kind, target=target))
    told = [one for one in store.findings(found.id) if one.cause == "loss_input_domain"]
    assert bool(told) == is_told
