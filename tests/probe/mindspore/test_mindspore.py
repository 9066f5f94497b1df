"""MindSpore models are watched completely, exactly, and without a trace; `make test-mindspore` runs this."""

import numpy as np
import pytest

mindspore = pytest.importorskip("mindspore", reason="MindSpore is not installed; `make test-mindspore` installs it")

from mindscope.probe import ConfigError, NotWatchable, SiteNotFound, watch  # noqa: E402
from mindscope.probe.adapters.step_lifecycle import StepLifecycle  # noqa: E402
from mindscope.storage import open_store  # noqa: E402
from mindspore import mint, nn, ops  # noqa: E402


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(6, 16), nn.ReLU(), nn.Dropout(p=0.3))
        self.head = nn.Dense(16, 3)
        self.spare = nn.Dense(2, 2)

    def construct(self, x):
        return self.head(self.body(x) + 1.0)


def seeded(build=Network):
    mindspore.set_seed(0)
    return build().set_train()


def batches(count):
    rng = np.random.default_rng(1)
    return [
        (
            mindspore.Tensor(rng.normal(size=(8, 6)).astype(np.float32)),
            mindspore.Tensor(rng.integers(0, 3, 8), mindspore.int32),
        )
        for _ in range(count)
    ]


def by_gradient_function(model, optimizer, steps):
    mindspore.set_seed(2)
    loss_of = nn.CrossEntropyLoss()
    step = mindspore.value_and_grad(lambda x, y: loss_of(model(x), y), None, optimizer.parameters)
    losses = []
    for x, y in batches(steps):
        loss, gradients = step(x, y)
        optimizer(gradients)
        losses.append(float(loss.asnumpy()))
    return losses


def by_gradient_function_with_more_results(model, optimizer, steps):
    mindspore.set_seed(2)
    loss_of = nn.CrossEntropyLoss()

    def forward(x, y):
        logits = model(x)
        return loss_of(logits, y), logits

    step = mindspore.value_and_grad(forward, None, optimizer.parameters, has_aux=True)
    losses = []
    for x, y in batches(steps):
        (loss, _), gradients = step(x, y)
        optimizer(gradients)
        losses.append(float(loss.asnumpy()))
    return losses


def by_training_cell(model, optimizer, steps):
    mindspore.set_seed(2)
    step = nn.TrainOneStepCell(nn.WithLossCell(model, nn.CrossEntropyLoss()), optimizer).set_train()
    return [float(step(x, y).asnumpy()) for x, y in batches(steps)]


def by_model(model, optimizer, steps):
    class Losses(mindspore.Callback):
        def on_train_step_end(self, run_context):
            losses.append(float(run_context.original_args().net_outputs.asnumpy()))

    mindspore.set_seed(2)
    losses = []
    data = mindspore.dataset.GeneratorDataset(
        [(x.asnumpy(), y.asnumpy()) for x, y in batches(steps)], ["x", "y"], shuffle=False
    )
    trainer = mindspore.Model(model, nn.CrossEntropyLoss(), optimizer, amp_level="O0")
    trainer.train(1, data, callbacks=[Losses()], dataset_sink_mode=False)
    return losses


LOOPS = [by_gradient_function, by_gradient_function_with_more_results, by_training_cell, by_model]


def adam(model):
    return nn.Adam(model.trainable_params(), 1e-2)


def recorded(model, optimizer, steps=3, train=by_gradient_function, **options):
    """(store, run, losses) of a watched training."""
    store = open_store("memory:")
    with watch(model, optimizer, store=store, **options) as monitor:
        losses = train(model, optimizer, steps)
    return store, monitor.run.id, losses


def values(store, run, site, metric, **options):
    return store.series(run, site, metric, **options).values


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5)  # columns of float32 tensors are stored as float32


def weights(model):
    return {name: one.asnumpy().tobytes() for name, one in model.parameters_and_names()}


@pytest.mark.parametrize("train", LOOPS)
def test_losses_and_weights_are_bit_identical_with_and_without_the_monitor(train):
    alone, watched = seeded(), seeded()
    expected = train(alone, adam(alone), 5)
    config = {"histograms": {"every": 2, "subjects": ["activation", "activation_grad", "weight", "gradient"]}}
    store, run, losses = recorded(watched, adam(watched), 5, train, config=config)
    assert len(losses) == 5
    assert losses == expected
    assert weights(alone) == weights(watched)
    assert values(store, run, "", "scalar/loss").tolist() == losses
    for site, metric in (
        ("body.0", "activation/std"),
        ("body.0", "activation_grad/std"),
        ("head.weight", "gradient/std"),
    ):
        assert len(values(store, run, site, metric)) == 5
    assert not store.events(run, kind="monitor_fault")


@pytest.mark.parametrize("train", LOOPS)
@pytest.mark.parametrize("name", ["forward_begins", "backward_begins", "update_begins", "after_step"])
def test_what_the_monitor_raises_ends_the_watch_and_not_the_training(train, name, monkeypatch, caplog):
    def fail(*_arguments):
        raise RuntimeError("of ours")

    alone, watched = seeded(), seeded()
    expected = train(alone, adam(alone), 5)
    monkeypatch.setattr(StepLifecycle, name, fail)
    _, _, losses = recorded(watched, adam(watched), 5, train)
    assert losses == expected
    assert weights(alone) == weights(watched)
    assert caplog.text.count("RuntimeError: of ours") >= 1
    assert len([record for record in caplog.records if "of ours" in record.getMessage()]) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda p: nn.SGD(p, 0.1, momentum=0.9),
        lambda p: nn.Momentum(p, 0.1, 0.9),
        lambda p: nn.AdamWeightDecay(p, 1e-2),
        lambda p: nn.RMSProp(p, 1e-2),
        lambda p: nn.Adagrad(p, 1e-2),
        lambda p: nn.Adadelta(p, 1e-2),
        lambda p: nn.AdaMax(p, 1e-2),
        lambda p: nn.ASGD(p, 1e-2),
        lambda p: nn.FTRL(p),
        lambda p: nn.Rprop(p),
        lambda p: mint.optim.Adam(p, 1e-2),
        lambda p: mint.optim.SGD(p, 1e-2, momentum=0.9),
        lambda p: mindspore.experimental.optim.Adam(p, 1e-2),
        lambda p: mindspore.experimental.optim.SGD(p, 1e-2, momentum=0.9),
    ],
)
def test_every_optimizer_is_watched_and_steps_as_ever(build):
    alone, watched = seeded(), seeded()
    expected = by_gradient_function(alone, build(alone.trainable_params()), 3)
    store, run, losses = recorded(watched, build(watched.trainable_params()))
    assert losses == expected
    assert weights(alone) == weights(watched)
    rates = values(store, run, "", "scalar/learning_rate")
    assert len(rates) == 3
    assert len(set(rates)) == 1
    assert not store.events(run, kind="monitor_fault")
    assert any(layout.subject.startswith("optimizer/") for layout in store.layouts(run))


def test_every_subject_equals_what_mindspore_computes_itself():
    model = seeded()
    optimizer = adam(model)
    seen = {"activation": [], "activation_grad": [], "gradient": [], "weight": [], "update": [], "slot": []}

    def norm(values):
        return float(np.linalg.norm(values.astype(np.float64)))

    def look(_cell, _inputs, output):
        seen["activation"].append(output.asnumpy().astype(np.float64).std())
        output.register_hook(lambda gradient: seen["activation_grad"].append(norm(gradient.asnumpy())))

    def look_at_gradients(_optimizer, arguments):
        index = [one.name for one in optimizer.parameters].index("head.weight")
        seen["gradient"].append(float(abs(arguments[0][index].asnumpy()).max()))
        seen["before"] = model.head.weight.asnumpy().copy()

    def look_at_step(*_):
        now = model.head.weight.asnumpy().astype(np.float64)
        seen["weight"].append(now.mean())
        seen["update"].append(norm(now - seen["before"]) / norm(seen["before"]))
        seen["slot"].append(norm(next(m for m in optimizer.moment2 if m.name.endswith("head.weight")).asnumpy()))

    model.body[0].register_forward_hook(look)
    optimizer.register_forward_pre_hook(look_at_gradients)
    optimizer.register_forward_hook(look_at_step)
    store, run, losses = recorded(model, optimizer, 4)
    close(values(store, run, "body.0", "activation/std"), seen["activation"])
    close(values(store, run, "body.0", "activation_grad/l2_norm"), seen["activation_grad"])
    extremes = np.maximum(
        values(store, run, "head.weight", "gradient/max"), -values(store, run, "head.weight", "gradient/min")
    )
    close(extremes, seen["gradient"])
    close(values(store, run, "head.weight", "weight/mean"), seen["weight"])
    np.testing.assert_allclose(values(store, run, "head.weight", "update/ratio_to_weight"), seen["update"], rtol=1e-4)
    close(values(store, run, "head.weight", "optimizer/moment2/l2_norm"), seen["slot"])
    assert values(store, run, "", "scalar/loss").tolist() == losses
    close(values(store, run, "", "scalar/learning_rate"), [0.01] * 4)


def test_what_changes_weights_between_steps_is_no_part_of_their_updates():
    model, moved = seeded(), []
    optimizer, weight = adam(model), model.head.weight
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for _ in range(4):
            before = weight.asnumpy().astype(np.float64)
            by_gradient_function(model, optimizer, 1)
            moved.append(np.linalg.norm(weight.asnumpy() - before))
            weight.set_data(mindspore.Tensor(weight.asnumpy().clip(-0.1, 0.1) * 1.1))
    close(values(store, monitor.run.id, "head.weight", "update/l2_norm"), moved)


def test_the_structure_tells_order_edges_groups_and_what_is_never_called():
    model = seeded()
    groups = [
        {"params": model.body.trainable_params(), "lr": 0.1, "weight_decay": 0.01},
        {"params": model.head.trainable_params(), "lr": 0.2},
    ]
    store, run, _ = recorded(model, nn.Momentum(groups, 0.1, 0.9))
    assert store.runs()[0].framework == f"mindspore {mindspore.__version__}"
    structure = store.structure(run)
    modules = {module.site: module for module in structure.modules}
    called = [module.site for module in structure.modules if module.order >= 0]
    assert called == ["body.0", "body.1", "body.2", "body", "head", ""]
    assert modules["spare"].order == -1
    assert modules["body.1"].inputs == ("body.0",)
    assert modules["head"].inputs == ("body",)  # through the addition between them
    assert [modules[site].is_leaf for site in ("", "body", "body.1")] == [False, False, True]
    parameters = {parameter.site: parameter for parameter in structure.parameters}
    assert parameters["body.0.weight"].group == (0, 0)
    assert parameters["head.bias"].group == (0, 1)
    assert parameters["spare.weight"].group is None
    assert (parameters["head.weight"].shape, parameters["head.weight"].dtype) == ((3, 16), "float32")
    close([group["lr"] for group in structure.optimizers[0].groups], [0.1, 0.2])
    assert structure.optimizers[0].groups[0]["weight_decay"] == pytest.approx(0.01)
    close(values(store, run, "", "scalar/learning_rate/1"), [0.2] * 3)


def test_what_lars_wraps_gives_its_rates_and_slots():
    from mindscope.probe.adapters.mindspore.mindspore_view import groups_of, optimizer_infos, slots_of

    parameters = seeded().trainable_params()
    optimizer = nn.LARS(nn.Momentum(parameters, 0.1, 0.9))  # LARSUpdate has no kernel on CPU: it cannot step here
    (group,) = groups_of(optimizer)
    assert [id(one) for one in group.parameters] == [id(one) for one in parameters]
    assert optimizer_infos([optimizer])[0].groups[0]["lr"] == pytest.approx(0.1)
    assert [one.name for one in slots_of(optimizer)["moments"].values()] == [
        f"moments.{one.name}" for one in parameters
    ]


def test_a_schedule_of_rates_is_read_without_moving_it_on():
    def build(model):
        return nn.SGD(model.trainable_params(), nn.piecewise_constant_lr([2, 4], [0.1, 0.01]))

    alone, watched = seeded(), seeded()
    expected = by_gradient_function(alone, build(alone), 4)
    store, run, losses = recorded(watched, build(watched), 4)
    assert losses == expected
    close(values(store, run, "", "scalar/learning_rate"), [0.1, 0.1, 0.01, 0.01])


def test_two_optimizers_step_in_one_step():
    model = seeded()
    first, second = nn.SGD(model.body.trainable_params(), 0.1), nn.Adam(model.head.trainable_params(), 0.01)
    loss_of = nn.CrossEntropyLoss()
    step = mindspore.value_and_grad(lambda x, y: loss_of(model(x), y), None, [*first.parameters, *second.parameters])
    store = open_store("memory:")
    with watch(model, [first, second], store=store) as monitor:
        for x, y in batches(3):
            _, gradients = step(x, y)
            first(gradients[: len(first.parameters)])
            second(gradients[len(first.parameters) :])
    run = monitor.run.id
    assert [record.step for record in store.replay(run)] == [0, 1, 2]
    for site in ("body.0.weight", "head.weight"):
        assert (values(store, run, site, "gradient/l2_norm") > 0).all()
        assert (values(store, run, site, "update/l2_norm") > 0).all()


def test_backward_passes_before_one_step_are_micro_steps_and_their_gradients_are_told_apart():
    model = seeded()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    loss_of = nn.CrossEntropyLoss()
    step = mindspore.value_and_grad(lambda x, y: loss_of(model(x), y), None, optimizer.parameters)
    store, local = open_store("memory:"), []
    config = {"accumulation_steps": 2, "subjects": {"gradient/unreduced": 1}}
    with watch(model, optimizer, store=store, config=config) as monitor:
        for start in (0, 2):
            parts = []
            for x, y in batches(4)[start : start + 2]:
                _, gradients = step(x, y)
                parts.append(gradients)
                local.append(float(np.linalg.norm(gradients[2].asnumpy().astype(np.float64))))
            optimizer(tuple(a + b for a, b in zip(*parts, strict=True)))
    run = monitor.run.id
    assert [(record.step, record.micro_step) for record in store.replay(run)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    name = optimizer.parameters[2].name
    found = [
        block.values[block.layout.sites.index(name), block.layout.statistics.index("l2_norm")]
        for record in store.replay(run)
        for block in record.blocks
        if block.layout.subject == "gradient/unreduced"
    ]
    close(found, local)
    assert not store.events(run, kind="monitor_fault")


def test_a_loss_that_is_scaled_inside_is_recorded_so_and_a_skipped_step_is_a_micro_step_of_the_next():
    model = seeded()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    loss_of = nn.CrossEntropyLoss()
    scaler = mindspore.amp.DynamicLossScaler(2.0**4, 2, 100)
    step = mindspore.value_and_grad(lambda x, y: scaler.scale(loss_of(model(x), y)), None, optimizer.parameters)
    store, scaled = open_store("memory:"), []
    with watch(model, optimizer, store=store) as monitor:
        for number, (x, y) in enumerate(batches(3)):
            loss, gradients = step(x, y)
            scaled.append(float(loss.asnumpy()))
            if number != 1:  # as after an overflow
                optimizer(scaler.unscale(gradients))
            scaler.adjust(mindspore.Tensor(number != 1))
    records = list(store.replay(monitor.run.id))
    assert [(record.step, record.micro_step) for record in records] == [(0, 0), (1, 0), (1, 1)]
    assert [record.scalars.get("micro_loss", record.scalars.get("loss")) for record in records] == scaled
    assert records[2].scalars["loss"] == pytest.approx(sum(scaled[1:]))  # of the two passes of its step


def test_a_budget_is_kept_with_these_hooks_too():
    alone, watched = seeded(), seeded()
    expected = by_gradient_function(alone, adam(alone), 5)
    store, run, losses = recorded(watched, adam(watched), 5, config={"budget": "50%"})
    assert losses == expected
    assert weights(alone) == weights(watched)
    assert not store.events(run, kind="monitor_fault")


def test_a_running_training_takes_other_sites():
    model = seeded()
    optimizer = adam(model)
    store = open_store("memory:")
    config = {"modules": ["head", "(model)"], "subjects": {"input": 1, "activation": 1}}
    with watch(model, optimizer, store=store, config=config) as monitor:
        by_gradient_function(model, optimizer, 2)
        changed = monitor._recorder.config.model_copy(update={"modules": ("body.0",)})
        monitor._recorder.follow(changed)
        monitor._adapter.reselect()
        by_gradient_function(model, optimizer, 2)
    run = monitor.run.id
    assert store.series(run, "head", "activation/std").steps.tolist() == [0, 1]
    assert store.series(run, "", "input/std").steps.tolist() == [0, 1]
    assert store.series(run, "body.0", "input/std").steps.tolist() == [2, 3]
    assert not store.events(run, kind="monitor_fault")


def test_a_cell_called_twice_has_two_calls_and_what_is_changed_in_place_is_read_before():
    class Twice(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.Dense(6, 6), nn.Dense(6, 3)

        def construct(self, x):
            first = self.layer(x)
            second = self.layer(ops.relu(first))
            return self.head(second)

    class Changing(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer = nn.Dense(6, 3)

        def construct(self, x):
            y = self.layer(x)
            y[0] = 100.0
            return y

    model = seeded(Twice)
    store, run, _ = recorded(model, adam(model), 2)
    first, second = (values(store, run, "layer", "activation/min", call=call) for call in (0, 1))
    assert (first != second).all()
    assert len(values(store, run, "layer", "activation_grad/std", call=1)) == 2
    model = seeded(Changing)
    store, run, _ = recorded(model, adam(model), 2)
    assert (values(store, run, "layer", "activation/max") < 50).all()
    assert (values(store, run, "", "activation/max") == 100).all()


def test_non_finite_values_are_counted_apart():
    class Broken(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer = nn.Dense(6, 3)
            self.bad = mindspore.Tensor(np.array([[np.nan, np.inf, -np.inf]] + [[0.0] * 3] * 7, np.float32))

        def construct(self, x):
            return self.layer(x) + self.bad

    model = seeded(Broken)
    store, run, _ = recorded(model, adam(model), 1)
    counts = [values(store, run, "", f"activation/{name}")[0] for name in ("nans", "pos_infs", "neg_infs")]
    assert counts == [1, 1, 1]
    assert values(store, run, "layer", "activation/nans")[0] == 0


@pytest.mark.parametrize("dtype", [mindspore.float16, mindspore.bfloat16, mindspore.float64])
def test_other_precisions_are_read_as_they_are(dtype):
    class Cast(nn.Cell):
        def construct(self, x):
            return x.astype(dtype)

    model = seeded(lambda: nn.SequentialCell(nn.Dense(6, 3), Cast()))
    store, seen = open_store("memory:"), []
    model[1].register_forward_hook(lambda _c, _i, out: seen.append(out.astype(mindspore.float64).asnumpy().std()))
    optimizer = adam(model)
    step = mindspore.value_and_grad(lambda x: model(x).astype(mindspore.float32).sum(), None, optimizer.parameters)
    with watch(model, optimizer, store=store) as monitor:
        for x, _ in batches(2):
            optimizer(step(x)[1])
    close(values(store, monitor.run.id, "1", "activation/std"), seen)


def test_views_with_gaps_and_in_other_orders_are_read_right():
    class Turned(nn.Cell):
        def construct(self, x):
            return x.T[::2]

    model = seeded(lambda: nn.SequentialCell(nn.Dense(6, 4), Turned()))
    seen = []
    model[1].register_forward_hook(lambda _c, _i, out: seen.append(float(out.asnumpy().astype(np.float64).sum())))
    optimizer = adam(model)
    step = mindspore.value_and_grad(lambda x: (model(x) ** 2).sum(), None, optimizer.parameters)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for x, _ in batches(2):
            optimizer(step(x)[1])
    close(values(store, monitor.run.id, "1", "activation/mean") * 16, seen)


def test_evaluation_between_steps_is_not_recorded():
    model = seeded()
    optimizer = adam(model)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        by_gradient_function(model, optimizer, 1)
        model.set_train(False)
        model(batches(1)[0][0])
        model.set_train(True)
        by_gradient_function(model, optimizer, 1)
    assert [record.step for record in store.replay(monitor.run.id)] == [0, 1]
    assert not store.events(monitor.run.id, kind="monitor_fault")


def test_frozen_parameters_have_weights_and_no_gradients():
    model = seeded()
    model.body[0].weight.requires_grad = False
    store, run, _ = recorded(model, adam(model), 2)
    assert len(values(store, run, "body.0.weight", "weight/l2_norm")) == 2
    assert not len(values(store, run, "body.0.weight", "gradient/l2_norm"))
    flags = {one.site: one.requires_grad for one in store.structure(run).parameters}
    assert (flags["body.0.weight"], flags["head.weight"]) == (False, True)


def test_inputs_and_their_gradients_are_recorded_on_request():
    model = seeded()
    store, run, _ = recorded(model, adam(model), 2, config={"subjects": {"input": 1, "input_grad": 1}})
    close(values(store, run, "body.1", "input/std"), values(store, run, "body.0", "activation/std"))
    close(values(store, run, "body.1", "input_grad/l2_norm"), values(store, run, "body.0", "activation_grad/l2_norm"))
    assert not store.events(run, kind="monitor_fault")


def test_whole_tensors_are_stored_on_request(tmp_path):
    model = seeded()
    config = {"dump": {"sites": ["head*"], "subjects": ["activation", "gradient"], "when": {"first": 1}}}
    with open_store(str(tmp_path)) as store:
        with watch(model, adam(model), store=store, config=config) as monitor:
            by_gradient_function(model, monitor._adapter.view.optimizers[0], 2)
        events = store.events(monitor.run.id, kind="tensor")
    assert {(event.site, event.data["subject"]) for event in events} == {
        ("head", "activation"),
        ("head.weight", "gradient"),
        ("head.bias", "gradient"),
    }


def test_forty_cycles_leave_no_hook_and_no_cover():
    from mindspore.graph.api import _pynative_executor as executor

    model = seeded()
    optimizer = adam(model)
    store = open_store("memory:")
    for _ in range(40):
        with watch(model, optimizer, store=store):
            pass
    with watch(model, optimizer, store=store):
        by_gradient_function(model, optimizer, 1)
    for _, cell in (*model.cells_and_names(), *optimizer.cells_and_names()):
        assert not cell._forward_hook
        assert not cell._forward_pre_hook
    assert {"grad", "end_graph"}.isdisjoint(vars(executor))
    alone = seeded()
    expected = by_gradient_function(alone, adam(alone), 2)
    model = seeded()
    assert by_gradient_function(model, adam(model), 2) == expected


def test_a_compiled_cell_is_said_to_be_seen_from_outside_only_and_trains_as_ever():
    class Inner(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer = nn.Dense(6, 6)

        @mindspore.jit
        def construct(self, x):
            return ops.relu(self.layer(x))

    def build():
        return nn.SequentialCell(Inner(), nn.Dense(6, 3))

    alone, watched = seeded(build), seeded(build)
    expected = by_gradient_function(alone, adam(alone), 3)
    store, run, losses = recorded(watched, adam(watched), 3)
    assert losses == expected
    (event,) = store.events(run, kind="monitor_fault")
    assert event.site == "0"
    assert "compiled by @jit" in event.data["error"]
    assert len(values(store, run, "0", "activation/std")) == 3
    assert not len(values(store, run, "0.layer", "activation/std"))


def test_a_compiled_training_step_is_not_harmed_and_the_run_says_that_it_saw_nothing(caplog):
    def train(model, optimizer):
        loss_of = nn.CrossEntropyLoss()

        def forward(x, y):
            return loss_of(model(x), y)

        gradient = mindspore.value_and_grad(forward, None, optimizer.parameters)

        @mindspore.jit
        def step(x, y):
            loss, gradients = gradient(x, y)
            return ops.depend(loss, optimizer(gradients))

        return [float(step(x, y).asnumpy()) for x, y in batches(3)]

    def build():
        return nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 3))

    alone, watched = seeded(build), seeded(build)
    expected = train(alone, adam(alone))
    optimizer = adam(watched)
    with watch(watched, optimizer, store=open_store("memory:")):
        losses = train(watched, optimizer)
    assert losses == expected
    assert "no step was recorded" in caplog.text


def test_graph_mode_is_refused_with_what_to_do():
    model = seeded()
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        with pytest.raises(NotWatchable, match="PYNATIVE_MODE"):
            watch(model, adam(model), store=open_store("memory:"))
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


def test_wrong_arguments_are_refused_with_what_was_expected():
    model = seeded()
    with pytest.raises(NotWatchable, match="must be a MindSpore optimizer, got int"):
        watch(model, 3, store=open_store("memory:"))
    with pytest.raises(SiteNotFound, match="haed"):
        watch(model, adam(model), store=open_store("memory:"), config={"modules": ["haed"]})
    with pytest.raises(ConfigError, match="nan_trace"):
        watch(model, adam(model), store=open_store("memory:"), config={"nan_trace": True})
    assert not any(cell._forward_hook for _, cell in model.cells_and_names())


def test_a_forward_that_raises_leaves_the_monitor_as_it_was():
    class Raising(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer, self.fails = nn.Dense(6, 3), False

        def construct(self, x):
            y = self.layer(x)
            if self.fails:
                raise ValueError("no more")
            return y

    model = seeded(Raising)
    optimizer = adam(model)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        by_gradient_function(model, optimizer, 1)
        model.fails = True
        with pytest.raises(ValueError, match="no more"):
            by_gradient_function(model, optimizer, 1)
        model.fails = False
        by_gradient_function(model, optimizer, 1)
    steps = [record.step for record in store.replay(monitor.run.id)]
    assert steps == [0, 1]
