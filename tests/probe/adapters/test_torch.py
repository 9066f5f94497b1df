"""Torch models are watched completely, exactly, and without a trace."""

import dataclasses
import gc
import os
import weakref

import numpy as np
import pytest
from mindscope.probe import NotWatchable, SiteNotFound, watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, 3)
        self.spare = nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.body(x) + 1.0)


def seeded(build=Network):
    torch.manual_seed(0)
    return build()


def batches(count):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(8, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator)) for _ in range(count)
    ]


def train(model, optimizer, steps, *, each=lambda loss: None):
    torch.manual_seed(2)
    losses = []
    for x, y in batches(steps):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each(loss)
        losses.append(loss.item())
    return losses


def adam(model):
    return torch.optim.AdamW(model.parameters(), 1e-2)


def recorded(model, optimizer, steps=3, **options):
    """(store, run, losses) of a watched training."""
    store = open_store("memory:")
    with watch(model, optimizer, store=store, **options) as monitor:
        losses = train(model, optimizer, steps)
    return store, monitor.run.id, losses


def values(store, run, site, metric, **options):
    return store.series(run, site, metric, **options).values


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5)  # columns of float32 tensors are stored as float32


@pytest.mark.parametrize("build_optimizer", [adam, lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)])
def test_losses_and_weights_are_bit_identical_with_and_without_the_monitor(build_optimizer):
    alone, watched = seeded(), seeded()
    expected = train(alone, build_optimizer(alone), 6)
    config = {"histograms": {"every": 2, "subjects": ["activation", "activation_grad", "weight", "gradient"]}}
    _, _, losses = recorded(watched, build_optimizer(watched), 6, config=config)
    assert losses == expected
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), watched.parameters(), strict=True))


def test_every_subject_equals_what_torch_computes_itself():
    model = seeded()
    optimizer = adam(model)
    seen = {"activation": [], "activation_grad": [], "gradient": [], "weight": [], "update": [], "slot": []}

    def look(_module, _inputs, output):
        seen["activation"].append(output.detach().double().std(correction=0).item())
        output.register_hook(lambda g: seen["activation_grad"].append(g.double().norm().item()))

    before = [model.head.weight.detach().clone()]

    def look_at_step(*_):
        now = model.head.weight.detach().clone()
        seen["gradient"].append(model.head.weight.grad.abs().max().item())
        seen["weight"].append(now.mean().item())
        seen["update"].append(((now - before[-1]).norm() / before[-1].norm()).item())
        seen["slot"].append(optimizer.state[model.head.weight]["exp_avg_sq"].norm().item())
        before.append(now)

    model.body[0].register_forward_hook(look)
    optimizer.register_step_post_hook(look_at_step)
    store, run, losses = recorded(model, optimizer, 4)
    close(values(store, run, "body.0", "activation/std"), seen["activation"])
    close(values(store, run, "body.0", "activation_grad/l2_norm"), seen["activation_grad"])
    extremes = np.maximum(
        values(store, run, "head.weight", "gradient/max"), -values(store, run, "head.weight", "gradient/min")
    )
    close(extremes, seen["gradient"])
    close(values(store, run, "head.weight", "weight/mean"), seen["weight"])
    np.testing.assert_allclose(values(store, run, "head.weight", "update/ratio_to_weight"), seen["update"], rtol=1e-4)
    close(values(store, run, "head.weight", "optimizer/exp_avg_sq/l2_norm"), seen["slot"])
    assert values(store, run, "", "scalar/loss").tolist() == losses
    assert values(store, run, "", "scalar/learning_rate").tolist() == [0.01] * 4


def test_the_structure_tells_order_edges_groups_and_what_is_never_called():
    model = seeded()
    groups = [{"params": model.body.parameters(), "lr": 0.1}, {"params": model.head.parameters(), "lr": 0.2}]
    store, run, _ = recorded(model, torch.optim.SGD(groups, 0.1))
    structure = store.structure(run)
    modules = {module.site: module for module in structure.modules}
    assert [module.site for module in structure.modules if module.order >= 0] == [
        "body.0",
        "body.1",
        "body.2",
        "body",
        "head",
        "",
    ]
    assert modules["spare"].order == -1
    assert modules["body.1"].inputs == ("body.0",)
    assert modules["head"].inputs == ("body",)  # through the addition between them
    assert [modules[site].is_leaf for site in ("", "body", "body.1")] == [False, False, True]
    parameters = {parameter.site: parameter for parameter in structure.parameters}
    assert parameters["body.0.weight"].group == (0, 0)
    assert parameters["head.bias"].group == (0, 1)
    assert parameters["spare.weight"].group is None
    assert parameters["head.weight"].shape == (3, 16)
    assert structure.optimizers[0].groups[1]["lr"] == 0.2
    assert values(store, run, "", "scalar/learning_rate/1").tolist() == [0.2] * 3


def test_tied_parameters_are_known_by_their_storage():
    model = seeded(lambda: nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3)))
    model[1].bias = nn.Parameter(model[0].bias.data[:3])
    store, run, _ = recorded(model, adam(model), 1)
    storages = {parameter.site: parameter.storage for parameter in store.structure(run).parameters}
    assert storages["0.bias"] == storages["1.bias"]
    assert storages["0.weight"] != storages["1.weight"]


def test_a_module_called_twice_has_two_calls_and_an_in_place_successor_does_not_change_the_first():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.relu = nn.Linear(6, 6), nn.ReLU(inplace=True)
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            return self.head(self.relu(self.layer(self.relu(self.layer(x)))))

    model = seeded(Twice)
    store, run, _ = recorded(model, adam(model), 2)
    first, second = (values(store, run, "layer", "activation/min", call=call) for call in (0, 1))
    assert (first < 0).all()
    assert (second < 0).all()
    assert (first != second).all()
    assert values(store, run, "relu", "activation/min", call=1).tolist() == [0.0, 0.0]
    assert len(values(store, run, "layer", "activation_grad/std", call=1)) == 2


def test_nested_outputs_have_stable_names_and_integers_are_left_out():
    @dataclasses.dataclass
    class Output:
        index: object
        logits: object
        states: tuple

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = Inner(), nn.Linear(4, 3)

        def forward(self, x):
            return self.head(self.inner(x).states[0]["last"])

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x):
            hidden = self.layer(x)
            return Output(hidden.argmax(), hidden * 2, ({"last": hidden + 1},))

    model = seeded(Nested)
    store, run, _ = recorded(model, adam(model), 2)
    sites = [site for layout in store.layouts(run) if layout.subject == "activation" for site in layout.sites]
    assert sites == ["inner.layer", "inner", "inner[states][0][last]", "head", ""]
    close(
        values(store, run, "inner[states][0][last]", "activation/mean"),
        values(store, run, "inner.layer", "activation/mean") + 1,
    )


def test_forwards_for_evaluation_are_not_the_training_step():
    model = seeded()
    optimizer = adam(model)
    store = open_store("memory:")

    def evaluate(_loss):
        with torch.no_grad():
            model(torch.full((2, 6), 1e3))
        model.eval()
        model(torch.full((2, 6), 1e3))
        model.train()

    with watch(model, optimizer, store=store) as monitor:
        train(model, optimizer, 3, each=evaluate)
    assert values(store, monitor.run.id, "head", "activation/size").tolist() == [24.0] * 3
    assert (values(store, monitor.run.id, "head", "activation/max") < 100).all()


def test_accumulated_backward_passes_are_micro_steps_of_one_step():
    model = seeded()
    optimizer = adam(model)
    store = open_store("memory:")
    with watch(model, optimizer, store=store, config={"accumulation_steps": 2}) as monitor:
        for _ in range(2):
            for x, y in batches(2):
                functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    records = list(store.replay(monitor.run.id))
    assert [(record.step, record.micro_step) for record in records] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {block.layout.subject for block in records[0].blocks} == {"activation", "activation_grad", "batch"}
    assert ["loss" in record.scalars for record in records] == [False, True, False, True]
    micro = [record.scalars["micro_loss"] for record in records]
    assert [record.scalars["loss"] for record in records[1::2]] == [micro[0] + micro[1], micro[2] + micro[3]]
    assert store.events(monitor.run.id, kind="gradient_before_forward") == ()


def test_gradients_left_of_the_last_step_are_noted():
    model = seeded()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for x, y in batches(4):
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    events = store.events(monitor.run.id, kind="gradient_before_forward")
    assert [event.step for event in events] == [1, 2, 3]
    assert events[0].data["parameters"] == 4
    assert events[0].data["l2_norm"] > 0


def test_a_step_that_a_loss_scaler_skips_keeps_its_number_and_its_gradients():
    model = seeded()
    optimizer = adam(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    store = open_store("memory:")
    losses = []
    with watch(model, optimizer, store=store) as monitor:
        for number, (x, y) in enumerate(batches(4)):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            if number == 1:
                model.head.weight.grad[0, 0] = torch.inf
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    run = monitor.run.id
    assert [record.skipped for record in store.replay(run)] == [False, True, False, False]
    (event,) = store.events(run, kind="step_skipped")
    assert (event.step, event.data["loss_scale"]) == (1, 1024.0)
    assert values(store, run, "head.weight", "gradient/pos_infs").tolist() == [0, 1, 0, 0]
    assert values(store, run, "", "scalar/loss").tolist() == losses
    assert values(store, run, "", "scalar/loss_scale").tolist() == [1024.0, 1024.0, 512.0, 512.0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes_are_measured_in_their_own_precision(dtype):
    layer = nn.Linear(6, 3).to(dtype)
    optimizer = torch.optim.SGD(layer.parameters(), 1e-2)
    store = open_store("memory:")
    with watch(layer, optimizer, store=store) as monitor:
        layer(torch.ones(4, 6, dtype=dtype)).sum().backward()
        optimizer.step()
    expected = layer.weight.detach().double()
    found = values(store, monitor.run.id, "weight", "weight/l2_norm")[0]
    assert found == pytest.approx(expected.norm().item(), rel=1e-12 if dtype == torch.float64 else 1e-6)


def test_a_module_whose_name_cannot_be_encoded_is_recorded_under_its_escape():
    net = torch.nn.Sequential()
    net.add_module("\ud800bad", torch.nn.Linear(2, 2))
    net.add_module("слой", torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store) as monitor:
            net(torch.ones(3, 2)).sum().backward()
            optimizer.step()
        for site in ("\\ud800bad", "слой"):
            assert len(store.series(monitor.run.id, site, "activation/mean").values) == 1
            assert len(store.series(monitor.run.id, f"{site}.weight", "gradient/mean").values) == 1
        assert not store.events(monitor.run.id, kind="observations_lost")


def trained_on_tokens(*, sparse):
    """The store and run of two steps of an embedding and a head; a token comes twice."""
    model = seeded(lambda: nn.Sequential(nn.Embedding(10, 4, sparse=sparse), nn.Linear(4, 3)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.tensor([1, 2, 2])).square().sum().backward()
            optimizer.step()
    return store, monitor.run.id


def test_a_sparse_gradient_is_recorded_as_the_dense_one_that_it_stands_for():
    (sparse, run), (plain, other) = trained_on_tokens(sparse=True), trained_on_tokens(sparse=False)
    assert not sparse.events(run, kind="monitor_fault")
    for statistic in ("l2_norm", "zeros", "mean", "max"):
        read, expected = (values(*one, "0.weight", f"gradient/{statistic}") for one in ((sparse, run), (plain, other)))
        assert read == pytest.approx(expected, rel=1e-5)
        assert len(read) == 2


def test_a_sparse_gradient_that_is_too_large_is_named_and_costs_only_itself(monkeypatch):
    monkeypatch.setattr("mindscope.probe.adapters.torch.torch_tensors._SPARSE_ELEMENTS", 39)
    store, run = trained_on_tokens(sparse=True)
    (event,) = store.events(run, kind="monitor_fault")
    assert event.site == "0.weight"
    assert "sparse" in str(event.data["error"])
    assert len(values(store, run, "0.weight", "gradient/l2_norm")) == 0
    assert len(values(store, run, "0.weight", "weight/l2_norm")) == 2


def test_lazy_layers_join_when_they_get_their_shape():
    model = seeded(lambda: nn.Sequential(nn.LazyLinear(5), nn.Linear(5, 3)))
    store = open_store("memory:")
    with watch(model, store=store) as monitor:
        model(torch.ones(2, 6))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            model(torch.ones(2, 6)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(values(store, monitor.run.id, "0.weight", "weight/std")) == 2
    assert monitor.step == 2


def test_without_an_optimizer_the_one_that_steps_is_found():
    model = seeded()
    store = open_store("memory:")
    with watch(model, store=store) as monitor:
        train(model, adam(model), 2)
    assert "optimizer/exp_avg/std" in store.metrics(monitor.run.id)
    assert store.structure(monitor.run.id).optimizers[0].kind == "AdamW"


def test_networks_trained_against_each_other_share_a_step():
    model = seeded(lambda: nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]))
    both = [torch.optim.SGD(part.parameters(), 0.1) for part in model]
    store = open_store("memory:")
    with watch(model, both, store=store) as monitor:
        for _ in range(3):
            for part, optimizer in zip(model, both, strict=True):
                optimizer.zero_grad()
                part(torch.ones(1, 2)).sum().backward()
                optimizer.step()
    assert monitor.step == 3
    for site in ("0.weight", "1.weight"):
        assert len(values(store, monitor.run.id, site, "gradient/l2_norm")) == 3


def test_what_is_not_due_is_not_there_and_not_computed(monkeypatch):
    model = seeded()
    calls = []
    from mindscope.probe.kernels import more

    real = more.measure
    monkeypatch.setattr(more, "measure", lambda *place: calls.append(place) or real(*place))
    config = {
        "subjects": {
            "activation": 3,
            "activation_grad": False,
            "batch": False,
            "weight": {"every": 0, "windows": [[2, 3]]},
        }
    }
    store, run, _ = recorded(model, adam(model), 5, config=config)
    assert store.series(run, "head", "activation/std").steps.tolist() == [0, 3]
    assert store.series(run, "head.weight", "weight/std").steps.tolist() == [2, 3]
    assert not [metric for metric in store.metrics(run) if metric.startswith("activation_grad")]
    assert len(calls) == 2 * 4  # four different tensors a forward: containers hand on their last child's


def test_updates_are_right_when_they_are_due_now_and_then():
    models = [seeded(), seeded()]
    always, sometimes = (
        recorded(model, adam(model), 7, config={"subjects": {"update": every}})
        for model, every in zip(models, (1, 3), strict=True)
    )
    every = values(*always[:2], "head.weight", "update/ratio_to_weight")
    close(values(*sometimes[:2], "head.weight", "update/ratio_to_weight"), every[::3])


def clip_in_place(model):
    with torch.no_grad():
        model.head.weight.clamp_(-0.1, 0.1).mul_(1.1)


def clip_data(model):
    model.head.weight.data.clamp_(-0.1, 0.1)


def load_others(model):
    model.load_state_dict({name: value * 1.5 for name, value in model.state_dict().items()})


@pytest.mark.parametrize("change", [clip_in_place, clip_data, load_others])
def test_what_changes_weights_between_steps_is_no_part_of_their_updates(change):
    model = seeded()
    optimizer, before, moved, ratios = adam(model), [], [], []
    optimizer.register_step_pre_hook(lambda *_: before.append(model.head.weight.detach().double().clone()))

    def each(_loss):
        moved.append((model.head.weight.double() - before[-1]).norm().item())
        ratios.append(moved[-1] / before[-1].norm().item())
        change(model)

    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        train(model, optimizer, 4, each=each)
    close(values(store, monitor.run.id, "head.weight", "update/l2_norm"), moved)
    close(values(store, monitor.run.id, "head.weight", "update/ratio_to_weight"), ratios)
    assert not store.findings(monitor.run.id)


def test_patterns_limit_what_is_recorded():
    model = seeded()
    store, run, _ = recorded(model, adam(model), 1, config={"modules": ["body.*"], "parameters": ["*.weight"]})
    sites = {layout.subject: layout.sites for layout in store.layouts(run)}
    assert sites["activation"] == ("body.0", "body.1", "body.2")
    assert sites["weight"] == ("body.0.weight", "head.weight", "spare.weight")


def test_many_cycles_leave_no_trace():
    model = seeded()
    optimizer = adam(model)
    functions = (torch.autograd.backward, torch.amp.GradScaler.step, torch.amp.GradScaler.scale)
    for cycle in range(40 if os.environ.get("MINDSCOPE_TEST_ALL") else 12):
        _, _, _ = recorded(model, optimizer, 1)
        if cycle == 4:
            gc.collect()
            counted = len(gc.get_objects())
    gc.collect()
    assert len(gc.get_objects()) - counted < 500
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert (torch.autograd.backward, torch.amp.GradScaler.step, torch.amp.GradScaler.scale) == functions


def test_no_activation_is_kept_alive():
    model = seeded()
    optimizer = adam(model)
    alive = []
    with watch(model, optimizer, store=open_store("memory:")):
        model.body[0].register_forward_hook(lambda _m, _i, output: alive.append(weakref.ref(output)))
        gc.disable()
        try:
            train(model, optimizer, 3)
            assert [tensor() for tensor in alive] == [None] * 3
        finally:
            gc.enable()


@pytest.mark.parametrize(("model", "words"), [(3, "got builtins.int"), (torch.ones(2), "got torch.Tensor")])
def test_what_is_no_model_is_refused(model, words):
    with pytest.raises(NotWatchable, match=words):
        watch(model, store=open_store("memory:"))


def test_a_wrong_pattern_leaves_no_hook_and_no_run():
    model, store = seeded(), open_store("memory:")
    with pytest.raises(SiteNotFound, match=r"did you mean 'head'"):
        watch(model, adam(model), store=store, config={"modules": ["haed"]})
    assert store.runs() == ()
    assert not any(module._forward_hooks for module in model.modules())
