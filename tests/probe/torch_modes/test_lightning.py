"""The callback of Lightning's Trainer records what the Trainer does, to the bit as without it."""

import logging

import pytest
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore::Warning")]


class Regression(lightning.LightningModule):
    """Calls a part of itself, and never itself, as many modules of Lightning do."""

    def __init__(self, *, fails_at=-1):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        self.losses, self.fails_at = [], fails_at

    def training_step(self, batch, number):
        if number == self.fails_at:
            raise ArithmeticError("the lights went out")
        loss = self.net(batch[0]).square().mean()
        self.losses.append(loss.item())
        self.log("quality", 1.0 / loss)
        return loss

    def validation_step(self, batch, number):
        self.log("validation", self.net(batch[0]).mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2)


class Adversaries(Regression):
    """Two networks with an optimizer each, stepped by hand."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.critic = torch.nn.Linear(1, 1)

    def training_step(self, batch, number):
        for optimizer, loss in zip(
            self.optimizers(),
            (lambda: self.critic(self.net(batch[0]).detach()).mean(), lambda: -self.critic(self.net(batch[0])).mean()),
            strict=True,
        ):
            optimizer.zero_grad()
            value = loss()
            self.manual_backward(value)
            optimizer.step()
            self.losses.append(value.item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.critic.parameters(), 0.1), torch.optim.Adam(self.net.parameters(), 0.01)


def fit(model, *callbacks, **options):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data = torch.utils.data.TensorDataset(torch.randn(16, 4, generator=torch.Generator().manual_seed(1)))
    loader = torch.utils.data.DataLoader(data, 2)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        log_every_n_steps=1,
        **options,
    )
    torch.manual_seed(2)
    trainer.fit(model, loader, None if options.get("limit_val_batches") == 0 else loader)
    return model.losses, [one.tolist() for one in model.parameters()]


@pytest.fixture
def watched():
    """(callback, store)"""
    from mindscope.callbacks import MindscopeLightningCallback

    store = open_store("memory:")
    return MindscopeLightningCallback(store=store), store


def test_a_fit_is_recorded_step_by_step_and_comes_out_the_same(watched):
    callback, store = watched
    expected = fit(Regression(), gradient_clip_val=0.1)
    assert fit(Regression(), callback, gradient_clip_val=0.1) == expected
    run = store.find_run("Regression")
    *steps, behind = store.replay(run.id)
    assert run.state == "finished"
    assert [(one.step, one.micro_step) for one in steps] == [(n, 0) for n in range(8)]
    assert (behind.step, [block.layout.subject for block in behind.blocks]) == (8, ["batch/eval"])  # the validation
    assert store.series(run.id, "", "scalar/loss").values.tolist() == expected[0]
    assert (store.series(run.id, "net.0.weight", "gradient/l2_norm").values <= 0.1001).all()
    assert len(store.series(run.id, "net.2", "activation_grad/std").values) == 8
    assert len(store.series(run.id, "", "scalar/trainer/quality").values) == 8
    assert "scalar/trainer/validation" in store.metrics(run.id)
    assert store.events(run.id, kind="monitor_fault") == ()


def test_accumulated_batches_are_micro_steps(watched):
    callback, store = watched
    expected = fit(Regression(), accumulate_grad_batches=2, limit_val_batches=0)
    assert fit(Regression(), callback, accumulate_grad_batches=2, limit_val_batches=0) == expected
    run = store.find_run("Regression")
    assert [(one.step, one.micro_step) for one in store.replay(run.id)] == [(n, m) for n in range(4) for m in (0, 1)]
    assert store.events(run.id, kind="gradient_before_forward") == ()


def test_optimizers_stepped_by_hand_share_a_step(watched):
    callback, store = watched
    expected = fit(Adversaries(), limit_val_batches=0)
    assert fit(Adversaries(), callback, limit_val_batches=0) == expected
    run = store.find_run("Adversaries")
    assert run.last_step == 7
    for site in ("critic.weight", "net.0.weight"):
        assert len(store.series(run.id, site, "gradient/l2_norm").values) == 8


def test_a_fit_that_fails_is_a_failed_run(watched):
    callback, store = watched
    with pytest.raises(ArithmeticError):
        fit(Regression(fails_at=3), callback, limit_val_batches=0)
    run = store.find_run("Regression")
    assert (run.state, run.error) == ("failed", "ArithmeticError: the lights went out")
