"""Real trainings, from the probe's hooks to the verdict: healthy ones stay silent, planted faults are found by name."""

from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from tests.contracts.trainings import Decoder, cnn, diagnosis_of_training, images, mlp, text  # noqa: E402

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
MOMENTUM = partial(SGD, momentum=0.9)
RELU_DECODER = partial(Decoder, act=nn.ReLU)

HEALTHY = {
    "mlp sgd 0.01": (mlp, SGD, 0.01, images),
    "mlp sgd 0.1": (mlp, SGD, 0.1, images),
    "mlp sgd 0.3": (mlp, SGD, 0.3, images),
    "mlp momentum 0.05": (mlp, MOMENTUM, 0.05, images),
    "mlp adam 3e-4": (mlp, ADAM, 3e-4, images),
    "mlp adam 1e-2": (mlp, ADAM, 1e-2, images),
    "mlp gelu adam 1e-3": (partial(mlp, nn.GELU), ADAM, 1e-3, images),
    "mlp eight layers": (partial(mlp, nn.ReLU, 8), ADAM, 1e-3, images),
    "mlp two sigmoids": (partial(mlp, nn.Sigmoid, 2), ADAM, 3e-3, images),
    "cnn momentum 0.05": (cnn, MOMENTUM, 0.05, images),
    "cnn adam 1e-3": (cnn, ADAM, 1e-3, images),
    "cnn adam 3e-3": (cnn, ADAM, 3e-3, images),
    "decoder adamw 3e-4": (Decoder, ADAMW, 3e-4, text),
    "decoder adamw 3e-3": (Decoder, ADAMW, 3e-3, text),
    "decoder relu adamw 1e-3": (RELU_DECODER, ADAMW, 1e-3, text),
}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made(build, seed=0):
    torch.manual_seed(seed)
    return build()


def causes(diagnosis):
    return [(item.cause, item.site) for item in diagnosis.root_causes]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_training_is_called_healthy(case, seed):
    build, optimizer, rate, data = case
    model = made(build, seed)
    found = diagnosis_of_training(model, optimizer(model.parameters(), lr=rate), data(seed), 70)
    assert (found.verdict, found.findings) == ("healthy", ())


def test_a_long_converged_training_is_healthy():
    model = made(mlp)
    found = diagnosis_of_training(model, ADAM(model.parameters(), lr=1e-3), images(0), 500)
    assert (found.verdict, found.findings) == ("healthy", ())


def test_a_frozen_backbone_is_a_notice_and_the_run_is_healthy():
    model = made(mlp)
    for layer in model[:-1]:
        layer.requires_grad_(False)
    found = diagnosis_of_training(model, ADAM(model[-1].parameters(), lr=1e-2), images(0), 60)
    assert found.verdict == "healthy"
    assert [(item.cause, item.severity) for item in found.findings] == [("frozen_parameter", "info")]


BUILDS = {"cnn": (cnn, images), "decoder": (RELU_DECODER, text)}


@pytest.mark.parametrize(("name", "site"), [("cnn", "3"), ("decoder", "blocks.1.out")])
def test_a_nan_is_found_in_the_module_that_makes_it(name, site):
    build, data = BUILDS[name]
    model = made(build)
    module = model.get_submodule(site)
    intact = module.forward

    def crack(step):
        if step == 20:
            module.forward = lambda x: intact(x) * torch.where(torch.arange(x.shape[-1])[0] == 0, torch.nan, 1.0)

    found = diagnosis_of_training(model, ADAM(model.parameters(), lr=1e-3), data(0), 30, before_step=crack)
    assert causes(found) == [("non_finite_activation", site)]
    assert found.root_causes[0].first_step == 20


def test_a_nan_of_the_loss_alone_is_the_losss():
    model = made(mlp)
    model.append(nn.Hardtanh(-1e3, 1e3))

    def batches():
        for step, (inputs, targets) in enumerate(images(0)):
            yield inputs, torch.full_like(targets, -100) if step == 20 else targets

    found = diagnosis_of_training(model, SGD(model.parameters(), lr=0.1), batches(), 30)
    assert causes(found)[0] == ("non_finite_loss", "")
    assert found.root_causes[0].first_step == 20


def test_a_gradient_that_only_backward_spoils_is_found_in_its_module():
    class Root(nn.Module):
        def forward(self, x):
            return torch.sqrt(x * 0.0 if self.broken else x * x + 1.0)

    model = made(lambda: nn.Sequential(nn.Linear(64, 32), Root(), nn.Linear(32, 10)))
    model[1].broken = False

    def crack(step):
        model[1].broken = step >= 20

    found = diagnosis_of_training(model, SGD(model.parameters(), lr=0.1), images(0), 30, before_step=crack)
    assert causes(found) == [("non_finite_gradient", "1")]
    assert found.root_causes[0].first_step == 20


@pytest.mark.parametrize("name", BUILDS)
def test_a_jump_of_the_rate_is_found_at_its_step(name):
    build, data = BUILDS[name]
    model = made(build)
    optimizer = ADAM(model.parameters(), lr=1e-3)

    def jump(step):
        if step == 30:
            optimizer.param_groups[0]["lr"] *= 300

    found = diagnosis_of_training(model, optimizer, data(0), 60, before_step=jump)
    assert causes(found) == [("learning_rate_too_high", "")]
    assert found.root_causes[0].first_step == 30


@pytest.mark.parametrize(
    ("build", "optimizer", "rate"),
    [(mlp, SGD, 5.0), (mlp, MOMENTUM, 2.0), (mlp, ADAM, 0.3), (cnn, MOMENTUM, 3.0), (cnn, ADAM, 0.1)],
)
def test_a_rate_that_is_too_high_from_the_start_is_found(build, optimizer, rate):
    model = made(build)
    found = diagnosis_of_training(model, optimizer(model.parameters(), lr=rate), images(0), 60)
    assert causes(found) == [("learning_rate_too_high", "")]


def test_a_rate_that_moves_nothing_is_found():
    model = made(mlp)
    found = diagnosis_of_training(model, SGD(model.parameters(), lr=1e-7), images(0), 40)
    assert causes(found) == [("learning_rate_too_low", "")]


def test_a_cold_start_that_recovers_lacks_warm_up():
    model = made(cnn)
    found = diagnosis_of_training(model, ADAM(model.parameters(), lr=0.03), images(0), 60)
    assert causes(found) == [("missing_warmup", "")]


@pytest.mark.parametrize(
    ("name", "biased", "site"), [("cnn", "4", "5"), ("decoder", "blocks.1.up", "blocks.1.act")], ids=BUILDS
)
def test_a_layer_whose_bias_kills_its_relu_is_dead(name, biased, site):
    build, data = BUILDS[name]
    model = made(build)
    model.get_submodule(biased).bias.data.fill_(-100.0)
    found = diagnosis_of_training(model, ADAM(model.parameters(), lr=1e-3), data(0), 40)
    assert causes(found) == [("dead_units", site)]


@pytest.mark.parametrize(("name", "site"), [("cnn", "3"), ("decoder", "blocks.0")])
def test_a_frozen_layer_is_named(name, site):
    build, data = BUILDS[name]
    model = made(build)
    model.get_submodule(site).requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = diagnosis_of_training(model, ADAM(trained, lr=1e-3), data(0), 40)
    assert [(item.cause, item.site) for item in found.questions] == [("frozen_parameter", site)]
    assert (found.verdict, causes(found)) == ("healthy", [])


def test_a_layer_that_is_declared_frozen_is_taken_for_granted():
    model = made(cnn)
    model[3].requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = diagnosis_of_training(model, ADAM(trained, lr=1e-3), images(0), 40, config={"expected_frozen": ["3"]})
    assert (found.verdict, found.findings) == ("healthy", ())


def test_a_layer_that_the_optimizer_does_not_hold_is_named():
    model = made(cnn)
    trained = [parameter for name, parameter in model.named_parameters() if not name.startswith("3.")]
    found = diagnosis_of_training(model, ADAM(trained, lr=1e-3), images(0), 40)
    assert causes(found) == [("parameter_not_in_optimizer", "3")]


def test_a_layer_behind_detach_gets_no_gradient():
    class Cut(nn.Module):
        def forward(self, x):
            return x.detach()

    def build():
        return nn.Sequential(nn.Linear(64, 32), Cut(), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))

    model = made(build)
    found = diagnosis_of_training(model, ADAM(model.parameters(), lr=1e-3), images(0), 40)
    assert causes(found) == [("frozen_parameter", "0")]
    assert "detach" in found.root_causes[0].advice


@pytest.mark.parametrize("name", BUILDS)
def test_gradients_that_are_not_cleared_are_the_cause(name):
    build, data = BUILDS[name]
    model = made(build)
    optimizer = MOMENTUM(model.parameters(), lr=0.05)
    found = diagnosis_of_training(model, optimizer, data(0), 60, clears=lambda step: step < 30)
    assert causes(found) == [("missing_zero_grad", "")]
    assert found.root_causes[0].first_step == 30


def test_ten_sigmoids_make_the_gradient_vanish():
    model = made(partial(mlp, nn.Sigmoid, 10))
    found = diagnosis_of_training(model, ADAM(model.parameters(), lr=1e-3), images(0), 40)
    assert causes(found) == [("vanishing_gradient", "0.weight")]


@pytest.mark.parametrize("value", ["huge", "tiny", "constant"])
def test_a_bad_start_is_found_before_what_it_does(value):
    model = made(mlp)
    weight = model[2].weight.data
    {"huge": lambda: weight.mul_(200), "tiny": lambda: weight.mul_(1e-6), "constant": lambda: weight.fill_(0.1)}[
        value
    ]()
    found = diagnosis_of_training(model, ADAM(model.parameters(), lr=1e-3), images(0), 40)
    assert causes(found) == [("bad_initialization", "2.weight")]


def test_steps_that_are_never_taken_are_missed():
    model = made(mlp)

    class Idle(SGD):
        def step(self, closure=None):
            return None

    found = diagnosis_of_training(model, Idle(model.parameters(), lr=0.1), images(0), 30)
    assert causes(found) == [("missing_optimizer_step", "")]
