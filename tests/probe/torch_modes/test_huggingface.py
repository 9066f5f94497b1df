"""The callback of Hugging Face's Trainer records what the Trainer does, to the bit as without it."""

import pytest
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class Regression(torch.nn.Module):
    """Returns a dict with its loss, as the Trainer expects it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x=None, labels=None):
        y = self.head(torch.relu(self.body(x)))
        return {"loss": (y[:, 0] - labels).square().mean(), "logits": y}


class Losses(transformers.TrainerCallback):
    def __init__(self):
        self.losses = []

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            self.losses.append((logs["loss"], logs["grad_norm"]))


def train(folder, *callbacks, **options):
    generator = torch.Generator().manual_seed(1)
    data = [
        {"x": torch.randn(4, generator=generator), "labels": torch.randn((), generator=generator)} for _ in range(16)
    ]
    settings = transformers.TrainingArguments(
        str(folder),
        max_steps=4,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=3,
        **options,
    )
    losses = Losses()
    model = Regression()
    trainer = transformers.Trainer(model, settings, train_dataset=data, callbacks=[losses, *callbacks])
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return losses.losses, [one.tolist() for one in model.parameters()]


def test_a_training_is_recorded_with_its_micro_steps_and_comes_out_the_same(tmp_path):
    from mindscope.callbacks import MindscopeCallback

    expected = train(tmp_path)
    store = open_store("memory:")
    callback = MindscopeCallback(store=store, run="tuning", tags={"lr": 5e-5})
    assert train(tmp_path, callback) == expected
    run = store.find_run("tuning")
    assert (run.state, run.last_step, run.tags) == ("finished", 3, {"lr": 5e-5})
    assert [(one.step, one.micro_step) for one in store.replay(run.id)] == [(n, m) for n in range(4) for m in (0, 1)]
    assert len(store.series(run.id, "head.weight", "gradient/l2_norm").values) == 4
    assert len(store.series(run.id, "body.weight", "optimizer/exp_avg/std").values) == 4
    assert store.events(run.id, kind="gradient_before_forward") == ()
    assert store.events(run.id, kind="monitor_fault") == ()
    logged = store.series(run.id, "", "scalar/trainer/grad_norm").values.tolist()
    assert logged == [norm for _, norm in expected[0]]
    assert store.structure(run.id).optimizers[0].kind == "AdamW"
    assert callback.training.monitor is None


def test_every_training_is_a_run_and_a_callback_may_serve_several(tmp_path):
    from mindscope.callbacks import MindscopeCallback

    store = open_store("memory:")
    callback = MindscopeCallback(store=store, config={"accumulation_steps": 2, "every": 2})
    train(tmp_path, callback, run_name="first")
    train(tmp_path, callback, run_name="second")
    assert {run.name for run in store.runs()} == {"first", "second"}
    for run in store.runs():
        assert store.series(run.id, "head.weight", "weight/std").steps.tolist() == [0, 2]
