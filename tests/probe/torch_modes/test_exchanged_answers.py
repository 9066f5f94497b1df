"""A loss computed again for exchanged answers tells whether they belong to their samples, whatever spells it."""

import mindscope as ms
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional

_STEPS = 130


def _train(tmp_path, model, loss_of, *, is_watched=True, steps=_STEPS, maximize=False):
    """Train; return the run's findings and looks, and the losses."""
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2, maximize=maximize), []

    def loop():
        for _ in range(steps):
            loss = loss_of()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))

    if not is_watched:
        loop()
        return [], [], losses
    with ms.watch(model, optimizer, store=tmp_path / "runs") as monitor:
        loop()
    store = ms.open_store(tmp_path / "runs")
    looks = [event.data for event in store.events(monitor.run.id, kind="exchange")]
    return store.findings(monitor.run.id), looks, losses


def _ranking(is_shuffled):
    """A loss of order in survival times, written out."""
    torch.manual_seed(0)
    model, draws = nn.Linear(4, 1), torch.Generator().manual_seed(1)

    def loss():
        x = torch.randn(64, 4, generator=draws)
        times = x[:, 0] + 0.3 * torch.randn(64, generator=draws)
        if is_shuffled:
            times = times[torch.randperm(64, generator=draws)]
        risk = model(x).squeeze(1)[times.argsort(descending=True)]
        return (risk.logcumsumexp(0) - risk).mean()

    return model, loss


def _scores(looks):
    signs = [-1 if look.get("is_raised") else 1 for look in looks]
    return [sign * (look["exchanged"] - look["loss"]) / look["spread"] for sign, look in zip(signs, looks, strict=True)]


def test_answers_that_belong_to_their_samples(tmp_path):
    _, looks, _ = _train(tmp_path, *_ranking(is_shuffled=False))
    assert len(looks) >= 3
    assert min(_scores(looks)) > 3


def test_answers_that_have_nothing_to_do_with_their_targets(tmp_path):
    findings, looks, _ = _train(tmp_path, *_ranking(is_shuffled=True), steps=240)
    assert sum(_scores(looks)) / len(looks) < 1
    assert any(finding.cause == "uninformative_labels" for finding in findings)


def test_a_loss_that_compares_all_answers_with_one_target_tells_nothing(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    _, looks, _ = _train(tmp_path, model, lambda: functional.softplus(-model(torch.randn(32, 4))).mean(), steps=90)
    assert looks == []


def test_looking_changes_nothing(tmp_path):
    _, _, plain = _train(tmp_path, *_ranking(is_shuffled=False), is_watched=False)
    _, looks, watched = _train(tmp_path, *_ranking(is_shuffled=False))
    assert looks
    assert watched == plain
    assert torch.overrides._get_current_function_mode() is None


def test_a_loss_with_a_gradient_inside_is_not_computed_again(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def residual():
        x = torch.rand(32, 2, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return (slope[:, 0] - 1).pow(2).mean()

    findings, looks, _ = _train(tmp_path, model, residual, steps=90)
    assert all("loss" not in look for look in looks)
    assert not [finding for finding in findings if finding.cause == "uninformative_labels"]


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_likelihood_that_is_maximised(tmp_path, is_shuffled):
    model, loss = _ranking(is_shuffled=is_shuffled)
    findings, looks, _ = _train(tmp_path, model, lambda: -loss(), steps=240, maximize=True)
    assert all(look["is_raised"] for look in looks)
    assert (min(_scores(looks)) > 3) is not is_shuffled
    found = {finding.cause for finding in findings if finding.severity != "info"}
    assert ("uninformative_labels" in found, "wrong_loss_sign" in found) == (is_shuffled, False)
