"""A disk that fills while a training is watched: the training goes on, one warning, a finding as soon as it can be."""

import logging
from contextlib import suppress

import mindscope
import numpy as np
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import Adam
from mindscope.storage import StoreUnavailable, open_store
from mindscope.storage.database.folder_backend import FileHousekeeping

from tests.storage.disks import small_disk

STEPS, FULL_FROM = 30, 10


def train(store=None, *, each=lambda monitor, step: None):
    """(losses, run) of a training, watched where there is a store."""
    net = nn.SequentialCell(nn.Dense(6, 8, key=Key(1)), nn.ReLU(), nn.Dense(8, 3, key=Key(2))).set_train()
    optimizer = Adam(net.trainable_params(), 0.01)
    rng = np.random.default_rng(0)
    losses = []
    monitor = None if store is None else mindscope.watch(net, optimizer, store=store, run="full")
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (net(Tensor(rng.normal(size=(16, 6)).astype(np.float32))) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.numpy().tobytes())
        if monitor is not None:
            monitor.flush()
            each(monitor, step)
    if monitor is not None:
        monitor.close()
    return losses


def fill(place):
    with suppress(OSError), place.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def undisturbed_records():
    """The number of records of an undisturbed run."""
    with open_store("memory:") as undisturbed:
        train(undisturbed)
        return len(list(undisturbed.replay(undisturbed.find_run("full").id)))


def lost_records(store):
    """(records that the store lacks, records of an undisturbed run); event and finding tell the former, too."""
    total = undisturbed_records()
    run = store.find_run("full")
    (finding,) = [one for one in store.findings(run.id) if one.rule == "monitor-fault"]
    assert run.state == "finished"
    lost = total - len(list(store.replay(run.id)))
    assert sum(int(one.data["count"]) for one in store.events(run.id, kind="observations_lost")) == lost
    assert finding.evidence["count"] == lost
    return lost, total


def test_with_room_again_nothing_is_lost(tmp_path, caplog):
    with small_disk(tmp_path / "disk") as disk, open_store(disk / "runs") as store:

        def each(monitor, step):
            if step == FULL_FROM:
                fill(disk / "other")
            elif FULL_FROM < step < 20:
                assert isinstance(monitor.fault, StoreUnavailable)
            elif step == 20:
                (disk / "other").unlink()

        with caplog.at_level(logging.WARNING):
            assert train(store, each=each) == train()
        run = store.find_run("full").id
        assert len(list(store.replay(run))) == undisturbed_records()
        assert not store.events(run, kind="observations_lost")
        assert not [one for one in store.findings(run) if one.rule == "monitor-fault"]
    said = [one.message for one in caplog.records if "the store cannot be written" in one.message]
    assert len(said) == 1


def test_on_a_disk_that_stays_full_what_has_no_room_is_told_at_the_end(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(FileHousekeeping, "make_room", lambda housekeeping: None)  # else there is room for these few
    monkeypatch.setattr("mindscope.storage.writing.retrying_writer.CLOSING_S", 0.3)
    with small_disk(tmp_path / "disk") as disk, open_store(disk / "runs") as store:

        def each(monitor, step):
            if step == FULL_FROM:
                fill(disk / "other")
            elif step == STEPS - 1:
                # Findings and the end of the run still need a little; observations are refused below a twentieth.
                with (disk / "other").open("r+b") as file:
                    file.truncate((disk / "other").stat().st_size - (400 << 10))

        with caplog.at_level(logging.WARNING):
            assert train(store, each=each) == train()
        lost, total = lost_records(store)
        assert lost == total - 1 - FULL_FROM
    assert sum("the store cannot be written" in one.message for one in caplog.records) == 1
    assert sum(f"{lost} records of steps" in one.message for one in caplog.records) == 1
