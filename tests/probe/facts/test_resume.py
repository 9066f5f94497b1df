"""A run that goes on from another says what it has kept, and what it has not."""

import logging
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.probe import watch
from mindscope.storage import RunNotFound, open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def pytorch(seed):
    """(net, optimizer, step, state, load)."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 3))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.arange(8) % 3)
        loss.backward()
        optimizer.step()
        return loss.item().hex()

    def state():
        held = {name: one.clone() for name, one in net.state_dict().items()}
        return held, optimizer.state_dict()

    def load(held, with_optimizer=True):
        net.load_state_dict(held[0])
        if with_optimizer:
            optimizer.load_state_dict(held[1])

    return net, optimizer, step, state, load


def engine(seed):
    net = nn.SequentialCell(nn.Dense(4, 6, key=Key(seed)), nn.Dense(6, 3, key=Key(seed + 1))).set_train()
    optimizer, rng = nn.Adam(net.trainable_params(), 0.01), np.random.default_rng(seed)

    def step():
        optimizer.zero_grad()
        loss = ops.cross_entropy(net(Tensor(rng.normal(size=(8, 4)).astype(np.float32))), Tensor(np.arange(8) % 3))
        loss.backward()
        optimizer.step()
        return float(loss).hex()

    def state():
        return [one.numpy().copy() for one in net.trainable_params()]

    def load(held):
        for one, values in zip(net.trainable_params(), held, strict=True):
            one.set_data(Tensor(values))

    return net, optimizer, step, state, load


def first_run(store, framework, steps=3):
    """The id of a run that has ended, and what it left."""
    net, optimizer, step, state, _ = framework(0)
    with watch(net, optimizer, store=store, run="first") as monitor:
        for _ in range(steps):
            step()
    return monitor.run.id, state()


def resumed(store, framework, prepare, name="second", resume=None):
    """The data of the seam of a run that is prepared so, None where it tells of none."""
    net, optimizer, step, _, load = framework(7)
    prepare(net, optimizer, load)
    with watch(net, optimizer, store=store, run=name, resume=resume) as monitor:
        step()
    seams = store.events(monitor.run.id, kind="resume_seam")
    assert not store.events(monitor.run.id, kind="monitor_fault")
    return dict(seams[0].data) if seams else None


def test_a_faithful_resumption_keeps_parameters_rate_and_count():
    with open_store("memory:") as store:
        run, held = first_run(store, pytorch)
        seam = resumed(store, pytorch, lambda net, optimizer, load: load(held), resume=run)
    assert (seam["run"], seam["step"], seam["is_declared"], seam["is_same_parameters"]) == (run, 2, True, True)
    assert (seam["counts_before"], seam["counts"]) == ([3], [3])
    assert seam["learning_rates_before"] == seam["learning_rates"] == [0.01]
    assert seam["changed"] == []


def test_a_state_that_was_not_loaded_and_another_rate_are_told():
    def prepare(_net, optimizer, load):
        load(held, with_optimizer=False)
        optimizer.param_groups[0]["lr"] = 0.5

    with open_store("memory:") as store:
        run, held = first_run(store, pytorch)
        seam = resumed(store, pytorch, prepare, resume="first")
    assert (seam["run"], seam["counts_before"], seam["counts"]) == (run, [3], [0])
    assert (seam["learning_rates_before"], seam["learning_rates"]) == ([0.01], [0.5])


@pytest.mark.parametrize("framework", [pytorch, engine])
def test_other_parameters_are_told_where_a_run_was_declared_and_only_there(framework):
    with open_store("memory:") as store:
        run, _ = first_run(store, framework)
        seam = resumed(store, framework, lambda *_: None, resume=run)
        assert seam["is_same_parameters"] is False
        assert set(seam["changed"]) == {"0.weight", "0.bias", "1.weight", "1.bias"}
        assert resumed(store, framework, lambda *_: None, name="first") is None


@pytest.mark.parametrize("framework", [pytorch, engine])
def test_a_run_of_the_same_name_that_begins_with_those_parameters_is_found_unasked(framework):
    with open_store("memory:") as store:
        run, held = first_run(store, framework)
        seam = resumed(store, framework, lambda net, optimizer, load: load(held), name="first")
    assert (seam["run"], seam["is_declared"], seam["is_same_parameters"]) == (run, False, True)


def test_a_checkpoint_in_the_middle_is_where_the_run_goes_on():
    net, optimizer, step, state, _ = pytorch(0)
    with open_store("memory:") as store:
        with watch(net, optimizer, store=store, run="first") as monitor:
            step()
            monitor.note_checkpoint()
            held = state()
            step()
        points = store.events(monitor.run.id, kind="resume_point")
        assert [(point.step, point.data["reason"]) for point in points] == [(0, "checkpoint"), (1, "close")]
        seam = resumed(store, pytorch, lambda net, optimizer, load: load(held, with_optimizer=False), resume="first")
    assert (seam["step"], seam["is_same_parameters"]) == (0, True)


def test_a_run_that_is_not_there_is_an_error_and_one_without_a_point_a_warning(caplog):
    net, optimizer, step, *_ = pytorch(0)
    with open_store("memory:") as store:
        with pytest.raises(RunNotFound):
            watch(net, optimizer, store=store, resume="nobody")
        with watch(net, optimizer, store=store, run="empty"):
            pass
        with caplog.at_level(logging.WARNING), watch(net, optimizer, store=store, resume="empty"):
            step()
    assert "left no resume point" in caplog.text


@pytest.mark.parametrize("place", ["memory:", "folder"])
def test_a_run_that_another_rank_has_just_begun_keeps_no_rank_from_joining_it(place, tmp_path):
    _, _, step, *_ = built = pytorch(0)
    with open_store(tmp_path if place == "folder" else place) as store:
        other = store.begin_run("together", rank=0)
        with watch(*built[:2], store=store, run="together", rank=1, run_id=other.run.id) as monitor:
            step()
        other.close("finished", "")
        assert not store.events(monitor.run.id, rank=1, kind="monitor_fault")
        with watch(*pytorch(1)[:2], store=store, resume="together", rank=2):  # of more ranks than there were
            pass


def test_an_earlier_run_that_cannot_be_read_stops_no_training_and_hides_no_other(tmp_path):
    with open_store(tmp_path) as store:
        good, held = first_run(store, pytorch)
        broken, _ = first_run(store, pytorch)
    with closing(sqlite3.connect(tmp_path / f"{broken}.rank0.db")) as file, file:
        assert file.execute("update event set data = '{no json' where kind = 'resume_point'").rowcount
    with open_store(tmp_path) as store:
        seam = resumed(store, pytorch, lambda net, optimizer, load: load(held), name="first")
    assert seam["run"] == good


def test_losses_are_the_same_to_the_bit_with_and_without_a_resumption():
    _, _, step, *_ = pytorch(3)
    plain = [step() for _ in range(3)]
    with open_store("memory:") as store:
        first_run(store, pytorch)
        net, optimizer, step, *_ = pytorch(3)
        with watch(net, optimizer, store=store, resume="first"):
            assert [step() for _ in range(3)] == plain
