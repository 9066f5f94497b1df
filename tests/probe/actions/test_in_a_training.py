"""What a training does about findings, on the engine and on PyTorch: a batch with NaN comes at step 3."""

from collections.abc import Callable
from pathlib import Path

import mindscope as ms
import numpy as np
import pytest
import torch
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.framework.train.training_state import load_training_state
from mindscope.probe import TrainingStopped

BAD, STEPS = 3, 6
Weights = Callable[[], bytes]


def engine_training():
    model = nn.SequentialCell(nn.Dense(4, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 3, key=Key(1))).set_train()
    optimizer = nn.Adam(model.trainable_params(), 0.01)

    def step(x: np.ndarray) -> None:
        loss = ops.cross_entropy(model(Tensor(x)), Tensor(np.zeros(len(x), np.int64)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return model, optimizer, step, lambda: b"".join(one.numpy().tobytes() for one in model.trainable_params())


def torch_training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)

    def step(x: np.ndarray) -> None:
        loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.zeros(len(x), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return model, optimizer, step, lambda: b"".join(one.detach().numpy().tobytes() for one in model.parameters())


TRAININGS = pytest.mark.parametrize("training", [engine_training, torch_training])


def batch(number: int) -> np.ndarray:
    x = np.random.default_rng(number).normal(size=(5, 4)).astype(np.float32)
    return np.full_like(x, np.nan) if number == BAD else x


def train(training, folder: Path, on_finding, batches=range(STEPS)):
    model, optimizer, step, weights = training()
    seen = []
    monitor = ms.watch(
        model, optimizer, store=folder, run="r", config={"on_finding": on_finding} if on_finding else None
    )
    with monitor:
        for number in batches:
            step(batch(number))
            seen.append(weights())
    return seen


@TRAININGS
def test_a_training_stops_before_the_weights_take_the_bad_update(training, tmp_path) -> None:
    model, optimizer, step, weights = training()
    before = [weights()]

    def run() -> None:
        with ms.watch(model, optimizer, store=tmp_path, run="r", config={"on_finding": "stop"}):
            for number in range(STEPS):
                before.append(weights())
                step(batch(number))

    with pytest.raises(TrainingStopped, match=r"bad_batch .* the batch of step 3 already holds 20 NaN") as stopped:
        run()
    assert stopped.value.finding.step == BAD
    assert weights() == before[-1]
    assert np.isfinite(np.frombuffer(before[-1], np.float32)).all()
    with ms.open_store(tmp_path) as store:
        run = store.find_run("r")
        assert (run.state, run.last_step) == ("failed", BAD)
        assert run.error.startswith("TrainingStopped: bad_batch")
        assert [one.step for kind in ("exception", "resume_point") for one in store.events(run.id, kind=kind)] == [
            BAD
        ] * 2
        assert [one.step for one in store.events(run.id, kind="update_refused")] == [BAD]


@TRAININGS
def test_a_skipped_update_leaves_the_training_as_if_the_batch_had_not_been(training, tmp_path) -> None:
    seen = train(training, tmp_path / "watched", "skip_step")
    assert seen[BAD] == seen[BAD - 1]
    assert seen[-1] == train(training, tmp_path / "without", None, [n for n in range(STEPS) if n != BAD])[-1]
    with ms.open_store(tmp_path / "watched") as store:
        run = store.find_run("r").id
        assert [record.step for record in store.replay(run) if record.skipped] == [BAD]
        assert {one.step for one in store.findings(run) if one.cause.startswith("non_finite")} == {BAD}


@TRAININGS
def test_gradients_are_still_there_after_a_skipped_update(training, tmp_path) -> None:
    model, optimizer, step, _ = training()
    with ms.watch(model, optimizer, store=tmp_path, config={"on_finding": "skip_step"}):
        step(batch(BAD))
        parameters = model.trainable_params() if hasattr(model, "trainable_params") else model.parameters()
        assert all(one.grad is not None for one in parameters)


@TRAININGS
def test_a_checkpoint_holds_the_state_after_the_step_that_was_found(training, tmp_path) -> None:
    model, optimizer, step, weights = training()
    with ms.watch(model, optimizer, store=tmp_path, run="r", config={"on_finding": ["checkpoint", "skip_step"]}) as one:
        for number in range(STEPS):
            step(batch(number))
            if number == BAD:
                wanted = weights()
    (path,) = (tmp_path / f"{one.run.id}.checkpoints").iterdir()
    other, again, _, loaded = training()
    if path.suffix == ".pt":
        state = torch.load(path)
        other.load_state_dict(state["model"])
        again.load_state_dict(state["optimizers"][0])
    else:
        load_training_state(path, other, again)
    assert loaded() == wanted
    assert path.name.startswith(f"step-{BAD + 1:09d}.rank0")


@TRAININGS
def test_a_checkpoint_is_named_after_the_step_whose_update_was_refused_for_good(training, tmp_path, caplog) -> None:
    made = training()
    before = made[3]()

    def keep():
        nonlocal before
        for number in range(STEPS):
            before = made[3]()
            made[2](batch(number))

    with (
        pytest.raises(TrainingStopped),
        ms.watch(*made[:2], store=tmp_path, run="r", config={"on_finding": ["checkpoint", "stop"]}) as one,
    ):
        keep()
    (path,) = (tmp_path / f"{one.run.id}.checkpoints").iterdir()
    other, again, _, loaded = training()
    if path.suffix == ".pt":
        other.load_state_dict(torch.load(path)["model"])
    else:
        load_training_state(path, other, again)
    assert loaded() == before
    assert path.name.startswith(f"step-{BAD:09d}.rank0")
    assert f"the state before step {BAD} is saved" in caplog.text


@TRAININGS
def test_reactions_that_have_no_cause_change_no_bit(training, tmp_path) -> None:
    healthy = [number for number in range(STEPS) if number != BAD]
    everything = ["stop", "skip_step", "checkpoint", "pause"]
    watched = train(training, tmp_path / "watched", everything, healthy)
    _, _, step, weights = training()
    alone = []
    for number in healthy:
        step(batch(number))
        alone.append(weights())
    assert watched == alone


def test_an_overflow_under_a_loss_scaler_stays_the_scalers_own(tmp_path) -> None:
    model, optimizer, _, _ = torch_training()
    scaler = torch.amp.GradScaler("cpu", init_scale=1e38)
    with ms.watch(model, optimizer, store=tmp_path, run="r", config={"on_finding": ["stop", "skip_step"]}):
        for number in (0, 1, 2):
            optimizer.zero_grad()
            scaler.scale(model(torch.from_numpy(batch(number))).square().sum() * 100).backward()
            scaler.step(optimizer)
            scaler.update()
    with ms.open_store(tmp_path) as store:
        run = store.find_run("r").id
        assert len(store.events(run, kind="step_skipped")) == 3
        assert not store.events(run, kind="update_refused")
