"""`Model` against the loop by hand; callbacks in their order; checkpoints, early ends, resumption."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, set_seed
from mindscope.framework.data import ArrayDataset, Loader
from mindscope.framework.nn import Dense, SequentialCell
from mindscope.framework.optim import Adam
from mindscope.framework.train import Model, TrainStep, callbacks, metrics
from mindscope.framework.train.callbacks import Callback


def rows(count=24, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, count)
    x = generator.standard_normal((count, 4)).astype(np.float32) + 2 * np.eye(3, 4, dtype=np.float32)[labels]
    return ArrayDataset(x, labels)


def network():
    return SequentialCell(Dense(4, 8, key=Key(0)), nn.ReLU(), Dense(8, 3, key=Key(1)))


def model(*names, net=None, **options):
    net = network() if net is None else net
    return Model(net, nn.CrossEntropyLoss(), Adam(net.trainable_params(), 0.02), names or None, **options)


def data():
    return rows().shuffle(1).batch(6)


@pytest.mark.parametrize("options", [{}, {"jit": True}, {"micro_batches": 2}, {"clip_norm": 0.1}, {"amp_level": "O2"}])
def test_training_lowers_the_loss_and_the_metrics_follow(options):
    mine = model("accuracy", **options)
    before = mine.eval(rows().batch(10))
    context = mine.train(12, data())
    after = mine.eval(rows().batch(10))
    assert after["loss"] < 0.6 * before["loss"]
    assert after["accuracy"] > 0.8
    assert (context.cur_epoch_num, context.cur_step_num) == (12, 48)


def test_training_is_the_loop_by_hand():
    mine, by_hand = model(), network()
    history = callbacks.History()
    mine.train(3, data(), history)
    step = TrainStep(by_hand, nn.CrossEntropyLoss(), Adam(by_hand.trainable_params(), 0.02))
    means = [np.mean([float(step(*batch)) for batch in data().epoch(number)]) for number in range(3)]
    assert history.history["loss"] == pytest.approx(means, rel=1e-12)
    for a, b in zip(mine.network.get_parameters(), by_hand.get_parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_evaluation_changes_nothing_and_counts_every_row_once():
    mine = model("accuracy", "confusion_matrix")
    mine.network.set_train()
    before = [p.asnumpy() for p in mine.network.get_parameters()]
    found = mine.eval(rows(23).batch(5))
    assert found["confusion_matrix"].sum() == 23
    assert mine.network.training
    x, y = rows(23).batch(23).epoch(0).__next__()
    scores = mine.predict(x)
    assert not scores.requires_grad
    assert found["accuracy"] == np.mean(scores.numpy().argmax(1) == y)
    assert found["loss"] == pytest.approx(float(nn.CrossEntropyLoss()(scores, Tensor(y))), rel=1e-6)
    for a, p in zip(before, mine.network.get_parameters(), strict=True):
        np.testing.assert_array_equal(a, p.numpy())


class Told(Callback):
    def __init__(self):
        self.turns = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda context: self.turns.append((name.removeprefix("on_"), context.cur_step_num))
        return super().__getattribute__(name)


def test_callbacks_are_called_at_every_turn_in_order():
    told = Told()
    model("accuracy").fit(2, rows(12).batch(6), rows(6).batch(6), 2, [told])
    epoch = [("train_epoch_begin", 0), ("train_step_begin", 0), ("train_step_end", 1)]
    epoch += [("train_step_begin", 1), ("train_step_end", 2)]
    second = [(turn, n + 2) for turn, n in epoch]
    evaluation = [("eval_begin", 4), ("eval_step_end", 4), ("eval_end", 4)]
    ends = [("train_epoch_end", 4), ("train_end", 4)]
    assert told.turns == [("train_begin", 0), *epoch, ("train_epoch_end", 2), *second, *evaluation, *ends]


def test_the_end_is_told_also_when_a_step_fails():
    class Fails(Callback):
        def on_train_step_end(self, context):
            raise KeyError("mine")

    told = Told()
    with pytest.raises(KeyError, match="mine"):
        model().train(1, data(), [told, Fails()])
    assert told.turns[-1][0] == "train_end"


def test_lines_tell_the_loss_and_the_time():
    lines, ticks = [], iter(range(100))
    watch = callbacks.TimeMonitor(lines.append, clock=lambda: float(next(ticks)))
    model().train(1, data(), [callbacks.LossMonitor(2, lines.append), watch])
    assert [line.partition(", loss")[0] for line in lines[:2]] == ["epoch 1 step 2 of 4", "epoch 1 step 4 of 4"]
    assert lines[2] == "epoch 1 took 9.000 s, 1000.000 ms a step"


def test_a_loss_that_is_no_number_can_end_the_training():
    x = np.full((6, 4), np.nan, np.float32)
    with pytest.raises(FloatingPointError, match="the loss is nan at step 1"):
        model().train(1, ArrayDataset(x, np.zeros(6, int)).batch(6), callbacks.LossMonitor(stop_when_not_finite=True))


class Scripted(Callback):
    """Results that were written beforehand."""

    def __init__(self, values):
        self.values = list(values)

    def on_train_epoch_end(self, context):
        context.results["eval_loss"] = self.values[context.cur_epoch_num - 1]


@pytest.mark.parametrize(("patience", "stopped"), [(0, 3), (1, 4), (2, None)])
def test_training_ends_when_patience_does(patience, stopped):
    early = callbacks.EarlyStopping(patience=patience)
    context = model().train(5, data(), [Scripted([1.0, 0.5, 0.6, float("nan"), 0.4]), early])
    assert early.stopped_epoch == stopped
    assert context.cur_epoch_num == (stopped or 5)


def test_the_best_weights_come_back_when_asked_for():
    class Keep(Callback):
        def on_train_epoch_end(self, context):
            kept.append([p.asnumpy() for p in context.network.get_parameters()])

    kept = []
    mine = model()
    early = callbacks.EarlyStopping(patience=1, restore_best_weights=True)
    mine.train(5, data(), [Scripted([0.5, 0.2, 0.4, 0.4, 0.1]), Keep(), early])
    for a, p in zip(kept[1], mine.network.get_parameters(), strict=True):
        np.testing.assert_array_equal(a, p.numpy())


def test_rates_follow_a_function_of_the_step_and_fall_on_a_plateau():
    mine, seen = model(), []
    mine.optimizer.register_step_pre_hook(lambda o, _: seen.append(o.param_groups[0]["lr"]))
    mine.train(1, data(), callbacks.LearningRateScheduler(lambda rate, step: 0.1 / (step + 1)))
    assert seen == pytest.approx([0.1, 0.05, 0.1 / 3, 0.025])
    mine, scripted = model(), Scripted([1.0, 1.0, 1.0, 1.0])
    mine.train(4, data(), [scripted, callbacks.ReduceLROnPlateau(factor=0.5, patience=1, min_lr=0.006)])
    assert mine.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_checkpoints_are_kept_by_number_and_the_best_besides(tmp_path):
    saved = callbacks.ModelCheckpoint("net", tmp_path / "new", every_steps=2, keep=3, monitor="eval_accuracy")
    scores = Scripted([0.1, 0.9, 0.5])

    class AsAccuracy(Callback):
        def on_train_epoch_end(self, context):
            context.results["eval_accuracy"] = context.results["eval_loss"]

    model().train(3, data(), [scores, AsAccuracy(), saved])
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["net-2_8.safetensors", "net-3_10.safetensors", "net-3_12.safetensors", "net-best.safetensors"]
    assert saved.latest.name == "net-3_12.safetensors"
    other = model(net=network())
    other.load_state(saved.best)
    assert other.optimizer.step_count == 8


def test_summaries_can_be_read_as_event_files(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    mine = model("accuracy")
    mine.fit(2, data(), data(), callbacks=callbacks.SummaryCollector(tmp_path, 3, clock=lambda: 1e9))
    (path,) = tmp_path.iterdir()
    events = [e for e in loader.LegacyEventFileLoader(str(path)).Load() if e.HasField("summary")]
    found = [(e.step, [v.tag for v in e.summary.value]) for e in events]
    results = ["epoch/loss", "epoch/eval_loss", "epoch/eval_accuracy"]
    steps = ["loss", "learning_rate"]
    assert found == [(1, steps), (4, steps), (4, results), (7, steps), (8, results)]


def run_with_loader(epochs, *, save=None, load=None):
    set_seed(5)
    net = SequentialCell(Dense(4, 8, key=Key(0)), nn.Dropout(0.3), Dense(8, 3, key=Key(1)))
    mine, loader = model(net=net), Loader(rows().shuffle(1).batch(5))
    if load is not None:
        mine.load_state(load, loader)
    stop = [callbacks.ModelCheckpoint("at", save, every_steps=7, every_epochs=None), _StopAt(7)] if save else []
    mine.train(epochs, loader, stop)
    return [p.asnumpy() for p in net.get_parameters()]


class _StopAt(Callback):
    def __init__(self, step):
        self.step = step

    def on_train_step_end(self, context):
        if context.cur_step_num == self.step:
            context.request_stop()


def test_a_training_stopped_in_the_middle_of_an_epoch_goes_on_bit_for_bit(tmp_path):
    whole = run_with_loader(3)
    run_with_loader(3, save=tmp_path)
    for a, b in zip(whole, run_with_loader(3, load=tmp_path / "at-2_7.safetensors"), strict=True):
        np.testing.assert_array_equal(a, b)


PROGRAM = """
    import sys
    import numpy as np
    from mindscope.framework import Key, load_checkpoint, nn, save_checkpoint, set_seed
    from mindscope.framework.data import ArrayDataset, Loader
    from mindscope.framework.optim import Adam, CosineDecay
    from mindscope.framework.train import TrainStep, load_training_state, save_training_state

    first, last, jit, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "jit", sys.argv[4]
    set_seed(9)
    generator = np.random.default_rng(0)
    data = ArrayDataset(generator.standard_normal((22, 4)).astype(np.float32), generator.integers(0, 3, 22))
    loader = Loader(data.shuffle(3).batch(4))
    net = nn.SequentialCell(nn.Dense(4, 8, key=Key(0)), nn.Dropout(0.2), nn.BatchNorm1d(8), nn.Dense(8, 3, key=Key(1)))
    optimizer = Adam(net.trainable_params(), CosineDecay(0.05, 10))
    step = TrainStep(net, nn.CrossEntropyLoss(), optimizer, jit=jit)
    if first:
        load_training_state(f"{folder}/state.safetensors", net, optimizer, loader=loader)
    batches = loader.forever()
    for _ in range(first, last):
        step(*next(batches))
    save_training_state(f"{folder}/state.safetensors", net, optimizer, loader=loader)
    save_checkpoint(net, f"{folder}/{last}.safetensors")
"""


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_ten_steps_are_five_a_new_process_and_five(tmp_path, mode):
    program = textwrap.dedent(PROGRAM)

    def run(first, last, folder):
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-W", "error", "-c", program, str(first), str(last), mode, str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        return (folder / f"{last}.safetensors").read_bytes()

    whole = run(0, 10, tmp_path / "whole")
    run(0, 5, tmp_path / "cut")
    assert run(5, 10, tmp_path / "cut") == whole


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Model(network()).train(1, data()), "expects an optimizer to train"),
        (lambda: Model(network()).eval(data()), "metrics or a loss function to evaluate"),
        (lambda: model("acuracy"), "did you mean 'accuracy'"),
        (lambda: model().train(0, data()), "epoch and valid_frequency of 1 or more, got 0"),
        (lambda: model().train(1, rows(4).batch(9, drop_remainder=True)), "no batch in an epoch"),
        (
            lambda: model().train(1, data(), callbacks.EarlyStopping()),
            "no result 'eval_loss' after epoch 1",
        ),
        (lambda: model(amp_level="O9"), "one of O0, O1, O2, O3, got 'O9'"),
        (lambda: callbacks.ModelCheckpoint(keep=0), "keep of 1 or more, or None, got 0"),
        (lambda: callbacks.ModelCheckpoint("a/b"), "a prefix without folders, got 'a/b'"),
        (lambda: callbacks.EarlyStopping(mode="best"), "auto, min or max, got 'best'"),
        (lambda: callbacks.EarlyStopping(patience=-1), "patience of 0 or more, got -1"),
        (lambda: callbacks.ReduceLROnPlateau(factor=1.0), "factor between 0 and 1, got 1.0"),
        (lambda: callbacks.LossMonitor(0), "per_print_times of 1 or more, got 0"),
        (lambda: callbacks.SummaryCollector("x", 0), "collect_freq of 1 or more, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_metrics_may_be_objects_under_any_name():
    mine = model(net=network())
    mine.metrics = {"top": metrics.TopKCategoricalAccuracy(3)}
    assert mine.eval(data())["top"] == 1.0
    other = Model(network(), nn.CrossEntropyLoss(), metrics={"second": metrics.TopKCategoricalAccuracy(2), "a": "acc"})
    found = other.eval(data())
    assert set(found) == {"loss", "second", "a"}
    assert math.isfinite(found["loss"])
