"""Predictions and targets on small trainings: bound to each other, exchanged, moved on by one, mirrored, or negated."""

import mindscope as ms
import pytest
from mindscope.insight import diagnose

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


def trained(tmp_path, model, losses, *, steps=190, rate=0.1):
    """Train and return {check: event data} of what was told of targets, and the parameters at the end."""
    optimizer = torch.optim.SGD(model.parameters(), rate)
    with ms.watch(model, optimizer, store=tmp_path / "runs") as monitor:
        for _ in range(steps):
            loss = losses()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    store = ms.open_store(tmp_path / "runs")
    events = store.events(monitor.run.id, kind="check")
    named = {event.data["check"]: event.data for event in events}
    return named, store, monitor.run.id


def regression(model, change, *, is_written):
    """Return a function that makes the loss of one batch, whose targets were changed."""
    weights = torch.randn(4, 2)

    def loss():
        x = torch.randn(16, 4)
        target = change(x @ weights)
        return ((model(x) - target) ** 2).mean() if is_written else functional.mse_loss(model(x), target)

    return loss


CHANGES = {
    "own": (lambda target: target, "held"),
    "permuted": (lambda target: target[torch.randperm(16)], "broken"),
    "noise": (torch.randn_like, "broken"),
}


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "called"])
@pytest.mark.parametrize("name", CHANGES)
def test_targets_that_have_nothing_to_do_with_the_inputs(tmp_path, name, is_written):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    change, outcome = CHANGES[name]
    named, store, run = trained(tmp_path, model, regression(model, change, is_written=is_written))
    assert named["targets_fit_their_predictions"]["outcome"] == outcome
    causes = {finding.cause for finding in diagnose(store, run).findings if finding.severity != "info"}
    assert ("uninformative_labels" in causes) == (outcome == "broken")


def test_inputs_that_are_moved_on_by_one_sample(tmp_path):
    torch.manual_seed(0)
    model, weights = nn.Linear(4, 4), torch.eye(4)

    def loss():
        x = torch.randn(16, 4)
        # the model may pass its input on, which is the next sample's
        return functional.l1_loss(x.roll(1, 0) + 0.0 * model(x.roll(1, 0)), x @ weights)

    named, _, _ = trained(tmp_path, model, loss)
    found = named["targets_fit_their_predictions"]
    assert found["outcome"] == "broken"
    assert found["numbers"]["worst"] < -0.5 < found["numbers"]["best"]


def test_predictions_that_avoid_their_targets(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    plain = regression(model, lambda target: target, is_written=False)
    named, store, run = trained(tmp_path, model, lambda: -plain(), rate=0.02)
    assert named["targets_fit_their_predictions"]["numbers"]["best"] < -0.5
    assert "wrong_loss_sign" in {finding.cause for finding in diagnose(store, run).findings}


@pytest.mark.parametrize(("is_aligned", "outcome"), [(True, "held"), (False, "broken")])
def test_pictures_that_are_mirrored_without_their_masks(tmp_path, is_aligned, outcome):
    torch.manual_seed(0)
    model = nn.Conv2d(1, 1, 1)

    def loss():
        mask = (functional.interpolate(torch.randn(16, 1, 4, 4), 8) > 0).float()
        image = 4 * mask + 0.1 * torch.randn(16, 1, 8, 8)
        turned = torch.rand(16) < 0.4
        image[turned] = image[turned].flip(-1)
        if is_aligned:
            mask[turned] = mask[turned].flip(-1)
        return functional.binary_cross_entropy_with_logits(model(image), mask)

    named, _, _ = trained(tmp_path, model, loss)
    assert named["pictures_are_aligned"]["outcome"] == outcome


def test_targets_that_are_all_the_same_tell_nothing(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)

    def loss():
        return functional.binary_cross_entropy_with_logits(model(torch.randn(16, 4)), torch.ones(16, 1))

    assert "targets_fit_their_predictions" not in trained(tmp_path, model, loss)[0]


def test_a_training_is_the_same_with_and_without(tmp_path):
    ends = []
    for is_watched in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))
        loss = regression(model, CHANGES["permuted"][0], is_written=True)
        if is_watched:
            trained(tmp_path, model, loss)
        else:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(190):
                value = loss()
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        ends.append(torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]))
    assert torch.equal(*ends)


def test_samples_of_which_each_has_a_noise_level_of_its_own(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(2, 2)

    def loss():
        levels = 10.0 ** (-4 * torch.rand(64, 1))
        noise = torch.randn(64, 2)
        return ((model(noise) / levels - noise / levels) * levels).square().mean()

    found, _, _ = trained(tmp_path, model, loss)
    assert found.get("targets_fit_their_predictions", {}).get("outcome") != "broken"
