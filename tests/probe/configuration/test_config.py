"""What a person writes becomes a configuration, or one clear error."""

import json

import pytest
from mindscope.probe import COLLECTORS, Config, ConfigError, Schedule, load_config


def test_nothing_written_means_every_subject_at_its_own_pace_and_histograms_rarely():
    config = load_config()
    for name, entry in COLLECTORS.items():
        if name != "histogram":
            early = ((1, 2), (4, 4), (7, 7)) if entry.rarity > 1 else ()
            expected = Schedule(every=0) if entry.is_optional else Schedule(every=entry.rarity, windows=early)
            assert config.schedule(name) == expected
    assert config.schedule("histogram").every == 100


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_file_is_read(tmp_path, suffix):
    data = {"every": 10, "subjects": {"activation": 2, "optimizer": False, "weight": {"every": 5, "first": 3}}}
    path = tmp_path / f"monitor.{suffix}"
    path.write_text(json.dumps(data))
    config = load_config(path)
    assert config == load_config(data) == load_config(load_config(data)) == load_config(str(path))
    assert config.schedule("activation") == Schedule(every=2)
    assert config.schedule("optimizer") == Schedule(every=0)
    assert config.schedule("weight") == Schedule(every=5, first=3)
    assert config.schedule("gradient") == Schedule(every=10)


def test_keywords_lie_over_the_file(tmp_path):
    path = tmp_path / "monitor.yaml"
    path.write_text("every: 10\nmodules: ['a.*']\n")
    config = load_config(path, every=3)
    assert (config.every, config.modules) == (3, ("a.*",))


def test_a_list_of_subjects_switches_the_others_off():
    config = load_config(subjects=["gradient", "loss"])
    assert {name for name in COLLECTORS if config.schedule(name).is_ever_due} - {"histogram"} == {"gradient", "loss"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"evry": 2}, r"unknown key 'evry'; did you mean 'every'"),
        ({"subjects": {"activations": 2}}, r"no subject 'activations'; did you mean 'activation'"),
        (
            {"subjects": {"activation": {"frist": 2}}},
            r"unknown key 'subjects\.activation\.frist'; did you mean 'first'",
        ),
        ({"histograms": {"bins": 7, "scale": "log"}}, "bins 7 must be even and at most 1024 with `scale: log`"),
        ({"histograms": {"bin": 3}}, r"unknown key 'histograms\.bin'; did you mean 'bins'"),
        ({"dump": {"when": {"evry": 3}}}, r"unknown key 'dump\.when\.evry'; did you mean 'every'"),
        ({"watchpoints": ["weight/l2_nrm @ * > 3"]}, r"weight has no statistic 'l2_nrm'; did you mean 'l2_norm'"),
        ({"watchpoints": ["attention/max_logits @ * > 9"]}, r"did you mean 'max_logit'"),
        ({"every": -1}, r"every: input should be greater than or equal to 0, got -1"),
        ({"subjects": {"weight": {"windows": [[5, 2]]}}}, r"window \[5, 2\] must run"),
        ({"record": "eval"}, r"record: .*'training'"),
        ({"every": 0, "histograms": {"every": 0}}, r"^configuration: nothing is ever due"),
        ({"subjects": ["gradent"]}, r"no subject 'gradent'; did you mean 'gradient'"),
    ],
)
def test_mistakes_are_named_with_what_would_be_right(fields, words):
    with pytest.raises(ConfigError, match=words):
        load_config(fields)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "- 1", "must hold keys and values"),
        ("a.yaml", "{", "not valid yaml"),
        ("a.json", "{", "not valid json"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize(("source", "kind"), [(3, "int 3"), (0, "int 0"), (["every"], "list"), (b"a.yaml", "bytes")])
def test_what_is_no_kind_of_configuration_is_refused(source, kind):
    with pytest.raises(ConfigError, match=f"file, a mapping or a Config, got {kind}"):
        load_config(source)


def test_a_configuration_survives_its_own_dump():
    config = Config(every=3, subjects={"weight": 2}, exclude=("x",))
    assert load_config(config.model_dump(mode="json")) == config
