"""A running training follows an edited file and `mindscope set`, at its next step; what is wrong is refused."""

import os

import numpy as np
import pytest
import yaml
from mindscope.framework import Key, Tensor, nn
from mindscope.framework.optim import SGD
from mindscope.probe import ConfigError, load_config, watch
from mindscope.probe import watch_session as beginning
from mindscope.probe.reconfiguration import ChangeWatcher, request_change
from mindscope.storage import open_store


@pytest.fixture(autouse=True)
def looks_at_every_step(monkeypatch):
    monkeypatch.setattr(beginning, "LOOK_S", -1.0)
    monkeypatch.setattr(beginning, "DATABASE_LOOK_S", -1.0)


class Training:
    """A watched training that can be stopped between steps."""

    def __init__(self, store, config):
        self.net = nn.SequentialCell(nn.Dense(6, 5, key=Key(1)), nn.ReLU(), nn.Dense(5, 3, key=Key(2))).set_train()
        self.optimizer = SGD(self.net.trainable_params(), learning_rate=0.1)
        self.x = Tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
        self.store = store
        self.monitor = watch(self.net, self.optimizer, store=store, config=config)
        self.losses = []

    def steps(self, count):
        for _ in range(count):
            self.optimizer.zero_grad()
            y = self.net(self.x)
            loss = (y * y).mean()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.numpy().tobytes())

    def records(self):
        self.monitor.close()
        return list(self.store.replay(self.monitor.run.id))


def subjects(record):
    return {block.layout.subject for block in record.blocks}


def activations(record):
    found = [block for block in record.blocks if block.layout.subject == "activation"]
    return {
        site
        for block in found
        for row, site in enumerate(block.layout.sites)
        if block.present is None or block.present[row]
    }


def edit(path, data):
    path.write_text(yaml.safe_dump(data))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


def test_an_edited_file_holds_from_the_next_step_on(tmp_path):
    edit(tmp_path / "monitor.yaml", {"subjects": ["gradient", "loss"]})
    with open_store(tmp_path / "runs") as store:
        training = Training(store, tmp_path / "monitor.yaml")
        training.steps(3)
        edit(tmp_path / "monitor.yaml", {"subjects": ["weight", "activation", "loss"], "modules": ["2"]})
        training.steps(3)
        records = training.records()
        assert [subjects(record) for record in records[:3]] == [{"gradient"}] * 3
        assert [subjects(record) for record in records[3:]] == [{"weight", "activation"}] * 3
        assert activations(records[3]) == {"2"}
        (event,) = store.events(training.monitor.run.id, kind="configuration_changed")
        assert event.step == 3
        assert event.data["modules"] == ["2"]


def test_edits_of_a_relative_file_are_followed_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    edit(tmp_path / "monitor.yaml", {"subjects": ["gradient", "loss"]})
    with open_store(tmp_path / "runs") as store:
        training = Training(store, "monitor.yaml")
        training.steps(2)
        monkeypatch.chdir(tmp_path / "elsewhere")
        edit(tmp_path / "monitor.yaml", {"subjects": ["weight", "loss"]})
        training.steps(2)
        assert [subjects(record) for record in training.records()] == [{"gradient"}] * 2 + [{"weight"}] * 2


def test_settings_of_a_run_are_laid_over_its_configuration(store):
    training = Training(store, {"subjects": ["gradient", "activation"]})
    training.steps(2)
    box = store.control_channel(training.monitor.run.id)
    request_change(box, {"modules": ["0"]})
    training.steps(2)
    request_change(box, {"subjects": {"gradient": False, "activation": 1}})
    training.steps(2)
    records = training.records()
    assert [activations(record) for record in records] == [{"0", "1", "2", ""}] * 2 + [{"0"}] * 4
    assert ["gradient" in subjects(record) for record in records] == [True] * 4 + [False] * 2


def test_settings_are_laid_over_each_other_key_by_key(store):
    training = Training(store, {"subjects": {"gradient": {"every": 2}, "update": False}})
    box = store.control_channel(training.monitor.run.id)
    training.steps(2)
    request_change(box, {"subjects": {"weight": False}})
    training.steps(2)
    request_change(box, {"subjects": {"gradient": {"every": 1}}})
    training.steps(2)
    request_change(box, {"subjects": {}})
    training.steps(1)
    records = training.records()
    wanted = ("gradient", "update", "weight")
    assert [[name in subjects(record) for name in wanted] for record in records] == [
        [True, False, True],
        [False, False, True],
        [True, False, False],
        [False, False, False],
        [True, False, False],
        [True, False, False],
        [True, False, True],  # what was asked for is cleared; what the training began with stays
    ]


def test_all_but_what_is_named_can_be_switched_off_and_on_again(store):
    training = Training(store, {"subjects": {"gradient": 1}, "histograms": {"every": 0}})
    box = store.control_channel(training.monitor.run.id)
    training.steps(2)
    request_change(box, {"every": 0})
    training.steps(2)
    request_change(box, {"every": 1})
    training.steps(1)
    assert [subjects(record) == {"gradient"} for record in training.records()] == [False, False, True, True, False]


def test_what_would_leave_nothing_is_refused_by_the_training_that_knows_the_rest(store):
    training = Training(store, {"histograms": {"every": 0}})
    request_change(store.control_channel(training.monitor.run.id), {"every": 0})
    training.steps(2)
    assert all(subjects(record) for record in training.records())
    (event,) = store.events(training.monitor.run.id, kind="configuration_refused")
    assert "nothing is ever due" in event.data["error"]


def test_modules_that_come_back_go_on_in_their_own_series(store):
    training = Training(store, {"subjects": ["activation"]})
    run = training.monitor.run.id
    training.steps(2)
    request_change(store.control_channel(run), {"modules": ["0"]})
    training.steps(2)
    request_change(store.control_channel(run), {"modules": ["*"]})
    training.steps(2)
    training.monitor.close()
    assert store.series(run, "2", "activation/mean").steps.tolist() == [0, 1, 4, 5]
    assert store.series(run, "0", "activation/mean").steps.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"evry": 3}, "did you mean 'every'"),
        ({"nan_trace": True}, "nan_trace cannot change while a training runs"),
        ({"modules": ["nothing.*"]}, "matches none of"),
        ({"watchpoints": ["weight/max @ nothing.* > 1"]}, "watchpoints[0]: pattern 'nothing.*' matches none of"),
    ],
)
def test_a_wrong_edit_is_refused_once_and_changes_nothing(tmp_path, caplog, asked, words):
    edit(tmp_path / "monitor.yaml", {"subjects": ["activation"]})
    with open_store(tmp_path / "runs") as store:
        training = Training(store, tmp_path / "monitor.yaml")
        training.steps(2)
        edit(tmp_path / "monitor.yaml", {"subjects": ["activation"], **asked})
        training.steps(3)
        records = training.records()
        assert [activations(record) for record in records] == [{"0", "1", "2", ""}] * 5
        (event,) = store.events(training.monitor.run.id, kind="configuration_refused")
        assert words in event.data["error"]
        assert sum("the change is refused" in record.message for record in caplog.records) == 1


def test_what_is_left_for_a_run_and_is_no_setting_at_all_is_refused_too(tmp_path):
    with open_store(tmp_path) as store:
        training = Training(store, None)
        store.control_channel(training.monitor.run.id).post("set", {1: 2})
        training.steps(2)
        assert len(training.records()) == 2
        assert store.events(training.monitor.run.id, kind="configuration_refused")


def test_changes_leave_the_losses_as_they_are(tmp_path):
    with open_store(tmp_path) as store:
        changed, plain = Training(store, None), Training(store, None)
        changed.steps(2)
        request_change(store.control_channel(changed.monitor.run.id), {"every": 2, "modules": ["0"]})
        changed.steps(4)
        plain.steps(6)
        changed.monitor.close()
        plain.monitor.close()
        assert changed.losses == plain.losses


def test_a_file_that_vanishes_changes_nothing(tmp_path):
    edit(tmp_path / "monitor.yaml", {"every": 3})
    config = load_config(tmp_path / "monitor.yaml")
    control = ChangeWatcher(config, tmp_path / "monitor.yaml", open_store("memory:").control_channel("run"), look_s=0.0)
    (tmp_path / "monitor.yaml").unlink()
    assert control.look() == ()


def test_what_cannot_be_asked_for_is_said_before_it_is_left(store):
    box = store.control_channel("x")
    with pytest.raises(ConfigError, match="queue cannot change"):
        request_change(box, {"queue": {"capacity": 3}})
    with pytest.raises(ConfigError, match="did you mean 'every'"):
        request_change(box, {"evry": 3})
    assert box.read("set") is None


def kinds(training):
    training.monitor.close()
    kinds = [event.kind.partition("_") for event in training.store.events(training.monitor.run.id)]
    return [what for topic, _, what in kinds if topic == "configuration"]


def looks(training, steps=1):
    """So many steps, and a look for changes behind the last of them."""
    training.steps(steps)
    training.monitor.flush()


@pytest.mark.parametrize("is_between_two_looks", [False, True], ids=["look-by-look", "at-once"])
def test_a_refused_setting_has_no_effect_on_those_behind_it(store, is_between_two_looks):
    training = Training(store, {"subjects": ["activation"]})
    box = store.control_channel(training.monitor.run.id)
    for asked in ({"depth": 1}, {"modules": ["foo.*"], "every": 5}, {"every": 2}, {"modules": ["0"]}):
        request_change(box, asked)
        if not is_between_two_looks:
            looks(training)
    looks(training, 3)
    records = training.records()
    assert (training.monitor._reconfiguration.control._now.config.every, activations(records[-1])) == (2, {"0"})
    assert kinds(training) == ["changed", "refused", "changed", "changed"]


def test_a_refused_setting_has_no_effect_on_the_file_nor_a_refused_file_on_settings(tmp_path):
    edit(tmp_path / "monitor.yaml", {"subjects": ["activation"]})
    with open_store(tmp_path / "runs") as store:
        training = Training(store, tmp_path / "monitor.yaml")
        box = store.control_channel(training.monitor.run.id)
        request_change(box, {"modules": ["foo.*"]})
        looks(training)
        edit(tmp_path / "monitor.yaml", {"subjects": ["activation"], "modules": ["0"]})
        looks(training)
        edit(tmp_path / "monitor.yaml", {"subjects": ["activation"], "modules": ["bar.*"]})
        looks(training)
        request_change(box, {"depth": 1})
        looks(training, 2)
        assert [activations(record) for record in training.records()][1:] == [{"0", "1", "2", ""}] + [{"0"}] * 3
        assert kinds(training) == ["refused", "changed", "refused", "changed"]


def test_who_joins_a_run_later_takes_what_was_accepted_and_refuses_what_was_refused(store):
    box = store.control_channel("run")
    for asked in ({"every": 3}, {"every": 0, "histograms": {"every": 0}}, {"depth": 1}):
        request_change(box, asked)
    control, refused = ChangeWatcher(load_config(None), None, box, look_s=-1.0), 0
    for asked in control.look():
        try:
            control.keep(control.judge(asked))
        except ConfigError:
            refused += 1
    assert (control._now.config.every, control._now.config.depth, refused) == (3, 1, 1)
    assert control.look() == ()


def test_settings_in_another_place_than_those_that_were_seen_hold_from_the_first_on(store):
    training = Training(store, None)
    box = store.control_channel(training.monitor.run.id)
    request_change(box, {"every": 3, "depth": 1})
    looks(training)
    box.post("set", {"every": 4})
    looks(training)
    training.monitor.close()
    held = training.monitor._reconfiguration.control._now.config
    assert (held.every, held.depth) == (4, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("every", 3),
        ("subjects", ["gradient"]),
        ("subjects", {"gradient": {"every": 3}}),
        ("histograms", {"every": 3}),
        ("modules", ["0"]),
        ("types", ["Dense"]),
        ("depth", 1),
        ("exclude", ["0"]),
        ("watchpoints", ["scalar/loss > 8"]),
    ],
)
def test_what_was_set_is_taken_back_for_every_key(store, key, value):
    begun = load_config({"every": 1, "exclude": ["1"]})
    training = Training(store, begun)
    control, box = training.monitor._reconfiguration.control, store.control_channel(training.monitor.run.id)
    request_change(box, {key: value, **({} if key == "depth" else {"depth": 2})})
    looks(training)
    assert control._now.config != begun
    request_change(box, {key: {}, **({} if key == "depth" else {"depth": {}})})
    looks(training)
    assert (control._now.config, control._now.fields) == (begun, {})
    assert kinds(training) == ["changed", "changed"]


def test_a_part_of_a_key_is_taken_back_and_the_rest_of_it_stays(store):
    training = Training(store, {"subjects": {"update": False}})
    box = store.control_channel(training.monitor.run.id)
    request_change(box, {"subjects": {"gradient": {"every": 2}, "weight": False}})
    request_change(box, {"subjects": {"gradient": {"every": {}}}})
    looks(training, 2)
    training.monitor.close()
    assert training.monitor._reconfiguration.control._now.fields == {"subjects": {"weight": False}}
    with pytest.raises(ConfigError, match="did you mean 'every'"):
        request_change(box, {"evry": {}})


def test_a_file_edited_in_vain_is_told_with_what_takes_the_setting_back(tmp_path, caplog):
    edit(tmp_path / "monitor.yaml", {"every": 1, "histograms": {"every": 2}})
    with open_store(tmp_path / "runs") as store:
        training = Training(store, tmp_path / "monitor.yaml")
        run = training.monitor.run.id
        request_change(store.control_channel(run), {"every": 3, "histograms": {"every": 5}, "depth": 1})
        looks(training)
        edit(tmp_path / "monitor.yaml", {"every": 7, "histograms": {"every": 4, "bins": 16}})
        looks(training)
        looks(training, 3)
        training.monitor.close()
        (event,) = store.events(run, kind="configuration_shadowed")
        assert event.data["keys"] == ["every", "histograms.every"]
        assert event.data["remedy"] == f"mindscope set {run} every={{}} histograms.every={{}}"
        assert sum(str(event.data["remedy"]) in record.message for record in caplog.records) == 1
        assert kinds(training) == ["changed", "changed", "shadowed"]


def test_parameters_that_are_excluded_under_way_are_not_recorded_until_that_is_taken_back(store):
    training = Training(store, {"histograms": {"every": 1, "subjects": ["weight", "gradient"]}})
    run, box = training.monitor.run.id, store.control_channel(training.monitor.run.id)
    looks(training, 2)
    request_change(box, {"exclude": ["0.bias", "2.*"]})
    looks(training)
    looks(training, 2)
    request_change(box, {"exclude": {}})
    looks(training)
    looks(training, 2)
    training.monitor.close()
    for subject in ("weight", "gradient", "update"):
        seen = [
            store.series(run, site, f"{subject}/l2_norm").steps.tolist() for site in ("0.weight", "0.bias", "2.bias")
        ]
        assert [len(steps) for steps in seen] == [8, 5, 5]
        assert seen[1] == seen[2]
    kept = [{one.site for one in record.histograms} for record in store.replay(run)]
    assert kept.count({"0.weight"}) == 3
    assert kept[-1] == {"0.weight", "0.bias", "2.weight", "2.bias"}
