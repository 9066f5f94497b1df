"""Predictions and targets on small trainings: bound to each other, exchanged, moved on by one, mirrored, or negated."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


#: Steps until the targets are told of, and the rate of the descent.
LONG = {"steps": 190, "rate": 0.1}


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
def test_targets_that_have_nothing_to_do_with_the_inputs(told, name, is_written):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    change, outcome = CHANGES[name]
    found = told(model, regression(model, change, is_written=is_written), **LONG)
    assert found.checks["targets_fit_their_predictions"]["outcome"] == outcome
    causes = {cause for cause, severity in found.causes.items() if severity != "info"}
    assert ("uninformative_labels" in causes) == (outcome == "broken")


def test_the_micro_batches_of_a_step_are_one_look_at_one_loss(told):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    one = regression(model, lambda target: target, is_written=False)

    def accumulated():
        for part in range(4):
            loss = one() / 4
            if part < 3:
                loss.backward()
        return loss

    found = told(model, accumulated, **LONG).checks["targets_fit_their_predictions"]
    assert (found["outcome"], found["subject"]) == ("held", "mse_loss")
    assert found["numbers"]["samples"] >= found["numbers"]["looks"] * 4 * 12


@pytest.mark.parametrize("learnable", [True, False])
def test_a_loss_that_is_added_up_over_time_is_one_loss(told, learnable):
    """Of a step in time with nothing to learn, such as the letter that follows the start, the others tell."""
    torch.manual_seed(0)
    model, weights = nn.Linear(4, 2), torch.randn(4, 2)

    def loss():
        total = torch.zeros(())
        for time in range(5):
            x = torch.randn(16, 4)
            target = x @ weights if time and learnable else torch.randn(16, 2)
            total = total + functional.mse_loss(model(x), target)
        return total / 5

    found = told(model, loss, **LONG).checks["targets_fit_their_predictions"]
    assert (found["outcome"], found["subject"]) == ("held" if learnable else "broken", "mse_loss")


def test_two_losses_of_one_step_are_looked_at_apart(told):
    torch.manual_seed(0)
    model, weights = nn.Linear(4, 2), torch.randn(4, 2)

    def loss():
        x = torch.randn(16, 4)
        return functional.mse_loss(model(x), x @ weights) + functional.mse_loss(model(x), torch.randn(16, 2))

    found = told(model, loss, **LONG).checks["targets_fit_their_predictions"]
    assert (found["outcome"], found["subject"]) == ("broken", "mse_loss 2")


def test_a_target_of_mixed_samples_that_weighs_almost_nothing(told):
    torch.manual_seed(0)
    model, weights = nn.Linear(4, 2), torch.randn(4, 2)

    def loss():
        x, order = torch.randn(16, 4), torch.randperm(16)
        mixed, target = model(0.98 * x + 0.02 * x[order]), x @ weights
        return 0.98 * functional.mse_loss(mixed, target) + 0.02 * functional.mse_loss(mixed, target[order])

    found = told(model, loss, **LONG)
    assert found.checks["targets_fit_their_predictions"]["outcome"] == "held"
    assert "uninformative_labels" not in found.causes


def test_inputs_that_are_moved_on_by_one_sample(told):
    torch.manual_seed(0)
    model, weights = nn.Linear(4, 4), torch.eye(4)

    def loss():
        x = torch.randn(16, 4)
        # the model may pass its input on, which is the next sample's
        return functional.l1_loss(x.roll(1, 0) + 0.0 * model(x.roll(1, 0)), x @ weights)

    found = told(model, loss, **LONG).checks["targets_fit_their_predictions"]
    assert found["outcome"] == "broken"
    assert found["numbers"]["worst"] < -0.5 < found["numbers"]["best"]


def test_predictions_that_avoid_their_targets(told):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    plain = regression(model, lambda target: target, is_written=False)
    found = told(model, lambda: -plain(), steps=190, rate=0.02)
    assert found.checks["targets_fit_their_predictions"]["numbers"]["best"] < -0.5
    assert "wrong_loss_sign" in found.causes


@pytest.mark.parametrize(
    ("side", "outcome"), [(-1, "held"), (None, "broken"), (-2, "broken")], ids=["along", "not at all", "across"]
)
def test_pictures_that_are_mirrored_and_their_masks_otherwise(told, side, outcome):
    torch.manual_seed(0)
    model = nn.Conv2d(1, 1, 1)

    def loss():
        mask = (functional.interpolate(torch.randn(16, 1, 4, 4), 8) > 0).float()
        image = 4 * mask + 0.1 * torch.randn(16, 1, 8, 8)
        turned = torch.rand(16) < 0.4
        image[turned] = image[turned].flip(-1)
        if side is not None:
            mask[turned] = mask[turned].flip(side)
        return functional.binary_cross_entropy_with_logits(model(image), mask)

    found = told(model, loss, **LONG)
    assert found.checks["pictures_are_aligned"]["outcome"] == outcome


def test_targets_that_are_all_the_same_tell_nothing(told):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)

    def loss():
        return functional.binary_cross_entropy_with_logits(model(torch.randn(16, 4)), torch.ones(16, 1))

    assert "targets_fit_their_predictions" not in told(model, loss, **LONG).checks


def test_a_training_is_the_same_with_and_without(told):
    ends = []
    for is_watched in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))
        loss = regression(model, CHANGES["permuted"][0], is_written=True)
        if is_watched:
            told(model, loss, **LONG)
        else:
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(190):
                value = loss()
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        ends.append(torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]))
    assert torch.equal(*ends)


def test_samples_of_which_each_has_a_noise_level_of_its_own(told):
    torch.manual_seed(0)
    model = nn.Linear(2, 2)

    def loss():
        levels = 10.0 ** (-4 * torch.rand(64, 1))
        noise = torch.randn(64, 2)
        return ((model(noise) / levels - noise / levels) * levels).square().mean()

    found = told(model, loss, **LONG).checks
    assert found.get("targets_fit_their_predictions", {}).get("outcome") != "broken"


@pytest.mark.parametrize("flattened", ["view", "flatten", "reshape, in float32", "time first"])
def test_sequences_that_often_repeat_their_last_token(told, flattened):
    """Where a model has learned to repeat, the token before the target fits better at all places where it changes."""
    torch.manual_seed(0)

    class Repeats(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Parameter(4 * torch.eye(8))

        def forward(self, tokens):
            scores = self.scores[tokens]
            match flattened:
                case "view":
                    return scores.view(-1, 8)
                case "flatten":
                    return scores.flatten(0, 1)
                case "time first":
                    return scores.transpose(0, 1).reshape(-1, 8)
                case _:
                    return scores.bfloat16().reshape(-1, 8).float() / 0.7

    def loss():
        tokens = torch.randint(0, 8, (8, 33))
        tokens[:, 1::2] = tokens[:, :-1:2]
        targets = tokens[:, 1:].T if flattened == "time first" else tokens[:, 1:]
        return functional.cross_entropy(model(tokens[:, :-1]), targets.reshape(-1))

    model = Repeats()
    found = told(model, loss, steps=190, rate=1e-3)
    assert found.checks["targets_fit_their_predictions"]["outcome"] == "held"
    assert "uninformative_labels" not in found.causes
