"""A configuration of msprobe's monitor is read as what it asks for; what means nothing here is said, key by key."""

import json

import pytest
from mindscope.probe import COLLECTORS, ConfigError, load_config
from mindscope.probe.configuration.site_selection import choose_sites

FULL = {
    "targets": {"0:language_model.encoder.0": {"output": "tensor"}},
    "start_step": 5,
    "collect_times": 3,
    "step_interval": 10,
    "xy_distribution": True,
    "forward_only": True,
    "wg_distribution": True,
    "mv_distribution": False,
    "cc_distribution": {"enable": True, "cc_codeline": ["train.py\\[23\\]"], "cc_pre_hook": True},
    "alert": {"rules": [{"rule_name": "AnomalyTurbulence"}]},
    "format": "csv",
    "ops": ["norm", "nans"],
    "ndigits": 12,
}

DUMP = {"task": "statistics", "dump_path": "./out", "rank": [], "step": [0], "level": "L0", "statistics": {"list": []}}


def test_a_dump_is_told_in_one_sentence_without_its_keys():
    with pytest.raises(ConfigError) as caught:
        load_config(DUMP)
    assert len(caught.value.mistakes) == 1
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "modules", "parameters"),
    [("", [""], ["0.weight", "1.weight"]), ("0:", [""], ["0.weight", "1.weight"]), ("1", ["1"], ["1.weight"])],
)
def test_a_target_picks_its_module_and_its_parameters_and_no_name_the_model(name, modules, parameters):
    config = load_config({"targets": {name: {}}, "xy_distribution": True, "wg_distribution": True})
    there = dict.fromkeys(("", "0", "1", "2"), object())
    assert choose_sites(there, ["0.weight", "1.weight"], config) == (tuple(modules), tuple(parameters))


def test_a_target_without_parameters_is_one_where_none_are_asked_for():
    config = load_config({"targets": {"2": {}}, "xy_distribution": True})
    assert choose_sites(dict.fromkeys(("", "2"), object()), ["0.weight"], config)[0] == ("2",)


def test_switches_become_subjects_and_steps_a_cadence(caplog):
    config = load_config(FULL)
    due = {name: [step for step in range(60) if config.schedule(name).is_due(step)] for name in COLLECTORS}
    assert due["activation"] == due["gradient"] == due["communication"] == [5, 15, 25]
    assert due["communication/before"] == [5, 15, 25]
    assert due["activation_grad"] == due["optimizer"] == due["weight"] == due["histogram"] == []
    assert due["loss"] == list(range(60))
    assert config.modules == ("language_model.encoder.0",)
    assert config.parameters == ("language_model.encoder.0.*",)
    said = {record.args[1].partition(":")[0] for record in caplog.records}
    assert said == {"cc_distribution.cc_codeline", "alert", "format", "ops", "ndigits"}


def test_collectives_alone_are_something_and_their_inputs_are_asked_for_apart():
    config = load_config({"cc_distribution": {"enable": True}})
    assert config.schedule("communication").is_due(0)
    assert not config.schedule("communication/before").is_ever_due


def test_it_may_stand_in_a_file(tmp_path):
    (tmp_path / "monitor.json").write_text(json.dumps({"targets": {}, "param_distribution": True}))
    config = load_config(tmp_path / "monitor.json")
    assert config.schedule("weight").is_due(0)
    assert config.modules == ("*",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"targets": {}}, "nothing is switched on; set one of xy_distribution"),
        ({"targets": {}, "xy_distribtion": True}, "unknown key 'xy_distribtion'; did you mean 'xy_distribution'"),
        ({"cc_distribution": {"enabled": True}}, "unknown key 'cc_distribution.enabled'; did you mean 'enable'"),
        ({"cc_distribution": {"enable": False}}, "nothing is switched on"),
        ({"wg_distribution": True, "step_interval": 0}, "step_interval must be a whole number from 1 up, got 0"),
        ({"wg_distribution": True, "targets": ["fc"]}, "targets must map names"),
        ({"wg_distribution": "false"}, "wg_distribution must be true or false, got 'false'; write it without quotes"),
        (DUMP, r"only the form of its trend monitor \(`targets`, .*; write `every: 1` .* or `dump: \{sites: "),
        ({"cc_distribution": {"enable": 1}}, "cc_distribution.enable must be true or false, got 1"),
    ],
)
def test_a_wrong_one_is_refused_in_one_line(data, words):
    with pytest.raises(ConfigError, match=words):
        load_config(data)


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    (tmp_path / "a.json").write_text('{"wg_distribution": "on", "step_interval": 0,\n"ndigit": 3, "ndigit": 4}')
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "a.json")
    words = ("key 'ndigit' stands twice", "msprobe configuration: unknown", "msprobe configuration: step", "msprobe")
    assert [told.startswith(word) for told, word in zip(caught.value.mistakes, words, strict=True)] == [True] * 4
