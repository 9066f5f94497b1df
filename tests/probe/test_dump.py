"""Whole tensors are stored as they were, once each, within their limits, and without a change to the run."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import SGD
from mindscope.insight.compare import compare_dumps, compare_tensors
from mindscope.probe import watch
from mindscope.probe.configuration.sections import Dump
from mindscope.probe.dump import Dumper
from mindscope.storage import StoreUnavailable, blobs_of, open_store
from mindscope.storage.stored_tensors import Blobs

SITES = ["0", "2", "2.weight"]


def engine_training(steps, disturb=None):
    """A training of three layers and what it computes: `train(store, config)` gives losses and the run's id."""
    net = nn.SequentialCell(nn.Dense(6, 5, key=Key(1)), nn.ReLU(), nn.Dense(5, 3, key=Key(2)))
    net.set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    x = Tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
    seen = []

    def train(store, config):
        losses = []
        with watch(net, optimizer, store=store, config=config) as monitor:
            for step in range(steps):
                if disturb is not None and step == disturb:
                    net[2].weight.set_data(net[2].weight.numpy() + 1e-6)
                optimizer.zero_grad()
                y = net(x)
                loss = (y * y).mean()
                loss.backward()
                seen.append((y.asnumpy(), net[2].weight.grad.asnumpy()))
                optimizer.step()
                losses.append(loss.numpy().tobytes())
        return losses, monitor.run.id, seen

    return train


CONFIG = {"dump": {"sites": SITES, "subjects": ["activation", "activation_grad", "gradient", "weight"], "when": 2}}


def test_tensors_are_stored_as_they_were_and_the_run_is_not_changed(tmp_path):
    with open_store(tmp_path) as store:
        losses, run, seen = engine_training(4)(store, CONFIG)
        plain, _, _ = engine_training(4)(store, None)
        assert losses == plain
        events = store.events(run, kind="tensor")
        blobs = blobs_of(store.url, run)
        stored = {(e.step, e.site, e.data["subject"]): blobs.get(e.data["digest"]) for e in events}
        assert {step for step, _, _ in stored} == {0, 2}
        np.testing.assert_array_equal(stored[2, "2", "activation"], seen[2][0])
        np.testing.assert_array_equal(stored[2, "2.weight", "gradient"], seen[2][1])
        assert (2, "2.weight", "weight") in stored
        assert (2, "0", "activation_grad") in stored
        assert not any(site == "1" for _, site, _ in stored)
        store.delete_run(run)
        assert not blobs.folder.exists()


def test_torch_tensors_keep_their_shape_order_and_dtype(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    net = torch.nn.Linear(6, 4).to(torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    kept = []
    net.register_forward_hook(lambda module, inputs, output: kept.append(output.detach().float().numpy()))
    with open_store(tmp_path) as store:
        config = {"dump": {"when": 1, "subjects": ["activation", "gradient"]}}
        with watch(net, optimizer, store=store, config=config) as monitor:
            net(torch.randn(6, 3, dtype=torch.bfloat16).T).float().square().sum().backward()
            optimizer.step()
        blobs = blobs_of(store.url, monitor.run.id)
        events = {e.site: e for e in store.events(monitor.run.id, kind="tensor")}
        activation = blobs.get(events[""].data["digest"])
        assert (activation.shape, activation.dtype.name) == ((3, 4), "bfloat16")
        np.testing.assert_array_equal(activation.astype(np.float32), kept[0])
        assert events["weight"].data["shape"] == [4, 6]


def test_the_limit_of_the_disk_leaves_tensors_out_and_says_so_at_their_first_step(tmp_path):
    with open_store(tmp_path) as store:
        config = {"dump": {"sites": ["0"], "subjects": ["activation"], "when": 1, "limit_gb": 2e-7}}
        _, run, _ = engine_training(6)(store, config)  # 80 bytes a step, of which 200 hold two
        assert [event.step for event in store.events(run, kind="tensor")] == [0, 1]
        at_once, at_the_end = store.events(run, kind="tensors_left_out")
        words = "the files would take more than dump.limit_gb, 2e-07 GB; raise it or dump less"
        assert (at_once.step, at_once.data) == (2, {"count": 1, "reason": words, "first": 2, "last": 2})
        assert (at_the_end.step, at_the_end.data) == (3, {"count": 3, "reason": words, "first": 3, "last": 5})


def test_that_tensors_are_left_out_is_known_while_the_run_goes_on(tmp_path):
    dumper = Dumper(Dump(limit_gb=1e-9), Blobs(tmp_path / "blobs"))
    for step in (3, 4):
        dumper.take("weight", "a", 0, (step, 0), np.zeros(4))
        dumper.take("weight", "b", 0, (step, 0), np.zeros(4))
        told = dumper.take_events()
        assert [(one.step, one.data["count"]) for one in told] == ([(3, 2)] if step == 3 else [])
    assert [(one.step, one.data["count"]) for one in dumper.close()] == [(4, 2)]


def test_a_disk_that_is_too_slow_has_its_own_words(tmp_path):
    dumper = Dumper(Dump(memory_gb=1e-9), Blobs(tmp_path / "blobs"))
    dumper.take("weight", "a", 0, (0, 0), np.zeros(4))
    (event,) = dumper.close()
    assert "copies that wait for the disk would take more than dump.memory_gb, 1e-09 GB" in event.data["reason"]


def test_a_store_that_is_no_folder_needs_one_named(tmp_path):
    with open_store("memory:") as store:
        with pytest.raises(StoreUnavailable, match="name a folder"):
            engine_training(1)(store, {"dump": {"when": 1}})
        assert store.runs() == ()
        _, run, _ = engine_training(1)(store, {"dump": {"when": 1, "folder": str(tmp_path)}})
        assert blobs_of("memory:", run, tmp_path).size_bytes() > 0


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_run_is_deleted_with_its_tensors_wherever_they_are(tmp_path, is_folder):
    config = {"dump": {"when": 1, "folder": str(tmp_path / "elsewhere")}}
    with open_store(tmp_path / "runs" if is_folder else "memory:") as store:
        gone, kept = (engine_training(1)(store, config)[1] for _ in range(2))
        store.delete_run(gone)
        assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [f"{kept}.tensors"]
        assert blobs_of(store.url, kept, tmp_path / "elsewhere").size_bytes() > 0


def test_two_dumps_are_compared_tensor_by_tensor(tmp_path):
    with open_store(tmp_path) as store:
        runs = [store.find_run(engine_training(4, disturb)(store, CONFIG)[1]) for disturb in (None, 2)]
        blobs = tuple(blobs_of(store.url, run.id) for run in runs)
        found = list(compare_dumps((store, store), tuple(runs), blobs))
        differing = [(one.step, one.site, one.subject) for one in found if one.difference.differing]
        assert differing[:2] == [(2, "2.weight", "weight"), (2, "2", "activation")]  # the first layer is equal
        assert (2, "0", "activation") not in differing
        assert all(step == 2 for step, _, _ in differing)


def test_tensors_come_in_the_order_in_which_the_step_brings_them_forth(tmp_path):
    act = nn.ReLU()
    net = nn.SequentialCell(nn.Dense(4, 4, key=Key(1)), act, nn.Dense(4, 4, key=Key(2)), act).set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    subjects = ["input", "activation", "activation_grad", "gradient", "weight"]
    with open_store(tmp_path) as store:
        with watch(net, optimizer, store=store, config={"dump": {"subjects": subjects}}) as monitor:
            for _ in range(2):  # backward passes of one step
                net(Tensor(np.ones((2, 4), np.float32))).sum().backward()
            optimizer.step()
        run = store.find_run(monitor.run.id)
        blobs = blobs_of(store.url, run.id)
        found = [
            (one.subject, one.site.partition("[")[0], one.call)
            for one in compare_dumps((store, store), (run, run), (blobs, blobs))
        ]
    assert {subject for subject, _, _ in found[:4]} == {"weight"}
    assert found[-4:-2] == [("gradient", "2.weight", 0), ("gradient", "2.bias", 0)]
    calls = [("0", 0), ("1", 0), ("2", 0), ("1", 1)]
    inside = [(subject, *call) for call in calls for subject in ("input", "activation")]
    forward = [("input", "", 0), *inside, ("activation", "", 0)]
    backward = [("activation_grad", *call) for call in [calls[3], ("", 0), *calls[2::-1]]]
    assert found[4:-4] == [*forward, *backward] * 2  # the last output is that of the model


def test_the_difference_of_two_tensors_by_hand():
    a = np.array([[1.0, 2.0, np.nan], [0.0, -4.0, np.inf]])
    b = np.array([[1.0, 2.5, np.nan], [0.0, -4.0, 3.0]])
    found = compare_tensors(a, b)
    assert (found.differing, found.first, found.values) == (2, (0, 1), (2.0, 2.5))
    assert (found.max_abs, found.max_rel, found.torn) == (0.5, 0.2, 1)
    assert found.cosine == pytest.approx((1 + 5 + 16) / np.sqrt((1 + 4 + 16) * (1 + 6.25 + 16)))
    assert compare_tensors(a, a).differing == 0
    lost = compare_tensors(np.array([1.0, 2.0, 3.0]), np.array([1.0, np.nan, np.inf]))
    assert (lost.differing, lost.torn) == (2, 2)
    assert np.isnan([lost.max_abs, lost.max_rel]).all()  # nothing that differs is a number on both sides
    with pytest.raises(ValueError, match="cannot be compared"):
        compare_tensors(a, b[0])
