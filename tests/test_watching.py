"""`ms.watch`: the two lines of the front page, with the diagnosis listening."""

import mindscope as ms
import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, ops
from mindscope.probe import ConfigError
from mindscope.storage import StoreUnavailable


def test_two_lines_record_and_diagnose_a_training(tmp_path):
    model = nn.SequentialCell(nn.Dense(6, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 3, key=Key(1))).set_train()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    monitor = ms.watch(model, optimizer, store=tmp_path / "runs", run="first", tags={"lr": 0.1})
    for step in range(4):
        x = np.ones((5, 6), np.float32) if step < 3 else np.full((5, 6), np.nan, np.float32)
        loss = ops.cross_entropy(model(Tensor(x)), Tensor(np.zeros(5, np.int64)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.log(accuracy=0.5)
    monitor.close()
    assert "non_finite" in " ".join(finding.cause for finding in monitor.findings)
    with ms.open_store(tmp_path / "runs") as store:
        run = store.find_run("first")
        assert (run.state, run.last_step, run.worst) == ("finished", 3, "error")
        stored = [(one.rule, one.site, one.first_step) for one in store.findings(run.id)]
        assert sorted(stored) == sorted((one.rule, one.site, one.first_step) for one in monitor.findings)


def test_a_store_that_cannot_be_written_is_said_at_once_and_leaves_no_hook(tmp_path):
    (tmp_path / "file").write_text("no folder")
    model = nn.SequentialCell(nn.Dense(2, 2, key=Key(0)))
    with pytest.raises(StoreUnavailable, match="file"):
        ms.watch(model, store=tmp_path / "file" / "runs")
    hooks = [cell._cell_hooks for _, cell in model.cells_and_names()]
    assert not any(one.forward or one.forward_pre for one in hooks if one)


def test_a_reaction_to_what_nobody_finds_is_an_error_that_names_the_nearest(tmp_path):
    model = nn.SequentialCell(nn.Dense(2, 2, key=Key(0)))
    config = {"on_finding": [{"do": "stop", "causes": ["watchpoint/*", "dead-*", "los_spike"]}]}
    with pytest.raises(ConfigError, match="'los_spike'; did you mean 'loss_spike'"):
        ms.watch(model, store=tmp_path, config=config)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"store": 5}, "store must be a folder, .* got int 5"),
        ({"run": 5}, "run must be a name, got int 5"),
        ({"tags": 5}, "tags must map names to values, .* got int 5"),
        ({"tags": {1: 2}}, "tags must map names to values, .* got dict"),
    ],
)
def test_what_is_no_store_name_or_tags_is_refused_with_what_was_expected(tmp_path, wrong, words):
    with pytest.raises(ConfigError, match=words):
        ms.watch(nn.Dense(2, 2, key=Key(0)), **{"store": tmp_path, **wrong})
    assert not list(tmp_path.iterdir())


def test_an_optimizer_that_is_given_twice_is_one(tmp_path):
    model = nn.Dense(2, 1, key=Key(0)).set_train()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    with ms.watch(model, [optimizer, optimizer], store=tmp_path, run="twice") as monitor:
        for _ in range(3):
            optimizer.zero_grad()
            model(Tensor(np.ones((5, 2), np.float32))).mean().backward()
            optimizer.step()
    assert not [one for one in monitor.findings if "optimizer" in one.cause]
    with ms.open_store(tmp_path) as store:
        run = store.find_run("twice")
        assert (run.last_step, len(store.structure(run.id).optimizers)) == (2, 1)
        assert not store.events(run.id, kind="monitor_fault", limit=9)
