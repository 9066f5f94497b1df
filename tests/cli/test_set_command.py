"""`mindscope set` reaches a training that runs, wherever its run is kept, and leaves nothing behind a deleted run."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import SGD
from mindscope.probe import watch
from mindscope.probe import watch_session as beginning
from mindscope.probe.reconfiguration import CHANGEABLE
from mindscope.storage import open_store


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request, tmp_path) -> str:
    """Where a store is."""
    return str(tmp_path / "runs") if request.param == "folder" else request.getfixturevalue("postgres_url")


def test_help_names_every_key_that_can_change(command: Callable) -> None:
    told = " ".join(command("set", "--help").out.split())
    assert f"These can change: {', '.join(CHANGEABLE)}." in told
    assert "key={} removes all that was set for that key and below it" in told


def test_a_value_that_is_no_yaml_is_said_with_what_to_do(command: Callable, tmp_path) -> None:
    told = command("set", "latest", "modules=[*.head]", "--store", tmp_path)
    assert (told.code, told.out) == (2, "")
    assert "quote a value that begins with *, as in modules=['*.head']" in told.err


def test_a_running_training_records_what_it_is_told_to(place, command: Callable, monkeypatch) -> None:
    monkeypatch.setattr(beginning, "LOOK_S", -1.0)
    monkeypatch.setattr(beginning, "DATABASE_LOOK_S", -1.0)
    net = nn.SequentialCell(nn.Dense(6, 3, key=Key(1))).set_train()
    optimizer = SGD(net.trainable_params(), learning_rate=0.1)
    x = Tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
    with open_store(place) as store:
        with watch(net, optimizer, store=store, config={"every": 1}, run="told") as monitor:
            for step in range(9):
                if step == 4:
                    told = command("set", "told", "subjects.weight=false", "--store", place)
                    assert (told.code, told.err) == (0, "")
                    assert f"mindscope events {monitor.run.id} --kind 'configuration_*'" in told.out
                optimizer.zero_grad()
                (net(x) ** 2).mean().backward()
                optimizer.step()
                monitor.flush()
        run = monitor.run.id
        weights = store.series(run, "0.weight", "weight/mean").steps.tolist()
        gradients = store.series(run, "0.weight", "gradient/mean").steps.tolist()
        assert gradients == list(range(9))
        assert weights == list(range(len(weights)))
        assert len(weights) in (4, 5)
        (changed,) = store.events(run, kind="configuration_changed")
        assert changed.data["subjects"] == {"weight": {"every": 0}}
        listed = command("events", run, "--kind", "configuration_*", "--store", place, "--json")
        assert [one["step"] for one in json.loads(listed.out)["events"]] == [changed.step]
        assert store.control_channel(run).read("set") is not None
        store.delete_run(run)
        assert store.control_channel(run).read("set") is None
