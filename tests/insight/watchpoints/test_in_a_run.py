"""Watchpoints of a real training: found live, and again offline with the same words."""

import mindscope as ms
import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.insight import diagnose
from mindscope.probe import watch_session as beginning
from mindscope.probe.reconfiguration import request_change

WATCHPOINTS = [{"when": "gradient/l2_norm @ * > 50", "name": "hot"}, "unchanged weight @ 0.bias for 2 steps"]


@pytest.fixture
def watched(tmp_path):
    model = nn.SequentialCell(nn.Dense(6, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 3, key=Key(1))).set_train()
    optimizer = nn.SGD(model.trainable_params(), 1e-4)
    with ms.watch(model, optimizer, store=tmp_path, run="w", config={"watchpoints": WATCHPOINTS}) as monitor:
        for step in range(6):
            x = np.ones((5, 6), np.float32) * (1.0 if step != 3 else 1e4)
            loss = ops.cross_entropy(model(Tensor(x)), Tensor(np.zeros(5, np.int64)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return monitor, tmp_path


def test_a_watchpoint_is_met_live_at_its_step_and_offline_in_the_same_words(watched) -> None:
    monitor, folder = watched
    live = [finding for finding in monitor.findings if finding.cause == "watchpoint"]
    assert {(finding.rule, finding.step) for finding in live} == {("watchpoint/hot", 3)}
    with ms.open_store(folder) as store:
        diagnosis = diagnose(store, "w")
    assert [finding for finding in diagnosis.findings if finding.cause == "watchpoint"] == sorted(
        live, key=lambda finding: finding.order
    )
    assert diagnosis.verdict == "undetermined"  # a watchpoint is what a person wanted to know, and the run is short
    assert not any(finding.cause == "watchpoint" for finding in diagnosis.root_causes)


def test_a_watchpoint_set_under_way_holds_from_the_next_step_on_live_and_offline(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(beginning, "LOOK_S", -1.0)
    model = nn.Dense(4, 2, key=Key(0)).set_train()
    optimizer = nn.SGD(model.trainable_params(), 1e-3)
    with ms.open_store(tmp_path) as store:
        monitor = ms.watch(model, optimizer, store=store, run="w", config={"subjects": ["weight", "loss"]})
        for step in range(8):
            if step == 2:
                request_change(store.control_channel(monitor.run.id), {"watchpoints": ["weight/l2_norm @ weight > 0"]})
            ops.square(model(Tensor(np.ones((2, 4), np.float32)))).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        monitor.close()
        (change,) = store.events(monitor.run.id, kind="configuration_changed")
        (live,) = [finding for finding in monitor.findings if finding.cause == "watchpoint"]
        assert live.step == change.step + 1
        assert [finding for finding in diagnose(store, "w").findings if finding.cause == "watchpoint"] == [live]
