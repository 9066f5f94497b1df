"""What a person writes becomes a configuration, or one clear error."""

import json
from typing import get_args

import pytest
from mindscope.cli.configuration_commands import TEMPLATE
from mindscope.probe import COLLECTORS, Config, ConfigError, Schedule, load_config
from mindscope.probe.configuration.config import __doc__ as configuration_text
from mindscope.probe.kernels import MORE


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


def test_every_statistic_on_request_can_be_configured_and_is_named_where_users_look():
    (choices, _) = get_args(Config.model_fields["statistics"].annotation)
    assert get_args(choices) == tuple(MORE), "give Config.statistics the names of MORE, in the same order"
    places = {"the docstring of configuration/config.py": configuration_text, "TEMPLATE": TEMPLATE}
    for place, text in places.items():
        (line,) = [line for line in text.splitlines() if line.startswith("statistics:")]
        missing = [name for name in MORE if name not in line]
        assert missing == [], f"name {missing} in the line 'statistics:' of {place}"


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
        ({"activations": 3}, r"unknown key 'activations'; for the subject write subjects: {activation: 3}$"),
        ({"subjects": {"activations": 2}}, r"no subject 'activations'; did you mean 'activation'"),
        (
            {"subjects": {"activation": {"frist": 2}}},
            r"unknown key 'subjects\.activation\.frist'; did you mean 'first'",
        ),
        ({"histograms": {"bins": 7, "scale": "log"}}, "bins 7 must be even and at most 1024 with `scale: log`"),
        ({"histograms": {"bin": 3}}, r"unknown key 'histograms\.bin'; did you mean 'bins'"),
        ({"dump": {"every": 3}}, r"unknown key 'dump\.every'; write it below `when`, as when: {every: 3}$"),
        ({"watchpoints": [{"when": "nan @ *", "first": 3}]}, r"unknown key 'watchpoints\[0\]\.first'; there are when"),
        ({"dump": {"when": {"evry": 3}}}, r"unknown key 'dump\.when\.evry'; did you mean 'every'"),
        ({"watchpoints": ["weight/l2_nrm @ * > 3"]}, r"weight has no statistic 'l2_nrm'; did you mean 'l2_norm'"),
        ({"watchpoints": ["attention/max_logits @ * > 9"]}, r"did you mean 'max_logit'"),
        ({"every": -1}, r"every must be 0 or more, got -1; leave it out for 1"),
        (
            {"subjects": {"weight": {"windows": [[5, 2]]}}},
            r"windows\[0\] must run from .*, got \[5, 2\]; swap its",
        ),
        ({"record": "trainin"}, r"record must be one of 'training', .*, got 'trainin'; did you mean 'training'"),
        ({"every": 0, "histograms": {"every": 0}}, r"^configuration: nothing is ever due"),
        ({"every": 0}, r"^configuration: nothing is ever due: `every` is 0 and `subjects` names nothing"),
        (
            {"subjects": []},
            r"^configuration: subjects must be a list of at least one, got \[\]; leave it out for all, or",
        ),
        (
            {"subjects": None},
            r"subjects must be keys and values, .* or a list of names, got null; .* leave it out for all",
        ),
        (
            {"subjects": "loss"},
            r"or a list of names, got 'loss'; {gradient: 10} changes what it names, \[gradient, loss\]",
        ),
        (
            {"subjects": ["loss", {"gradient": 10}]},
            "subjects must be a list of names, got .*; with a cadence write keys",
        ),
        ({"subjects": [["loss"]]}, "subjects must be a list of names"),
        ({"subjects": {"histogram": 10}}, "subject 'histogram' has its cadence in `histograms`; write `histograms: {"),
        ({"subjects": {"histograms": 10}}, "subject 'histograms' has its cadence in `histograms`"),
        ({"subjects": {"xyz": 1}}, r"no subject 'xyz'; there are activation, (?!.*histogram)"),
        ({"subjects": ["loss", "histogram"]}, "subject 'histogram' has its cadence in `histograms`"),
        (
            {"histograms": {"subjects": []}},
            r"got \[\]; leave it out for .*, or write `histograms: {every: 0}` for none",
        ),
        (
            {"dump": {"subjects": []}},
            r"dump\.subjects must be a list of at least one, got \[\]; leave it out for .* none$",
        ),
        ({"flight_recorder": {"subjects": []}}, r"got \[\]; leave it out for .*, or leave out `tensors` for none"),
        ({"dump": {"when": False}}, "dump: `when` is never due"),
        ({"parameters": []}, r"parameters must name one pattern or more, got \[\]; leave it out for all"),
        ({"modules": ()}, "modules must name one pattern or more"),
        ({"dump": {"sites": []}}, r"dump\.sites must be a list of at least one, got \[\]; leave it out for"),
        ({"modules": "fc"}, r"modules must be a list, got 'fc'; write \['fc'\]"),
        ({"nan_trace": "maybe"}, "nan_trace must be true or false, got 'maybe'; leave it out for false"),
        ({"causality": "maybe"}, "^configuration: causality must be true, false or report, got 'maybe'; leave [^;]*$"),
        ({"depth": 1.5}, r"depth must be a whole number, got 1\.5"),
        ({"depth": "two"}, "depth must be a whole number, got 'two'"),
        ({"queue": "drop"}, "queue must be keys and values, got 'drop'; there are capacity, when_full"),
        ({"subjects": {"weight": "often"}}, r"subjects\.weight must be a whole number of steps, true, false, or"),
        (
            {"subjects": {"weight": {"windows": [5, 7]}}},
            r"subjects\.weight\.windows\[0\] must be a pair \[first, last\]",
        ),
        ({"routers": [{"top_k": 2}]}, r"routers\[0\] needs the key 'sites'; add it"),
        ({"routers": [{"sites": ["*"], "output": []}]}, r"routers\[0\]\.output must be the place of an output, or its"),
        ({"webhook": {"url": "example"}}, r"webhook\.url must be an address as https://host/path, got 'example'"),
        ({"budget": "3 percent"}, "budget must be a share .*, as 0.03, or a percentage .*, as 3%, got '3 percent'; or"),
        ({"flight_recorder": {"memory": "1.2.3MB"}}, r"flight_recorder\.memory must be a number of bytes, or one with"),
        ({"subjects": {1: 2}}, "a key must be text, got 1; write it in quotes"),
        ({1: 2}, "a key must be text, got"),
        ({"every": float("nan")}, "every must be a whole number, got NaN"),
        ({"widows": 3}, r"unknown key 'widows'; there are every, subjects, modules"),
        ({"subjects": ["gradent"]}, r"no subject 'gradent'; did you mean 'gradient'"),
    ],
)
def test_mistakes_are_named_with_what_would_be_right(fields, words):
    with pytest.raises(ConfigError, match=words):
        load_config(fields)


def test_all_mistakes_are_told_at_once():
    fields = {
        "evry": 1,
        "record": "none",
        "nan_trace": 3,
        "subjects": {"weigt": 3, "weight": {"every": "x"}, "loss": {"start": 5, "stop": 2, "windows": [[3, 1]]}},
        "watchpoints": ["nan @", "weight/l2_nrm @ * > 3"],
    }
    with pytest.raises(ConfigError) as caught:
        load_config(fields)
    told = caught.value.mistakes
    expected = (
        "unknown key 'evry'",
        "record must be",
        "nan_trace must be",
        "no subject 'weigt'",
        "subjects.weight.every must be",
        "subjects.loss.windows[0] must run from a step >= 0 to a later one, got [3, 1]",
        "subjects.loss: stop 2 must be a later step",
        "watchpoints[0]: condition 'nan @' is not understood",
        "watchpoints[1]: condition 'weight/l2_nrm @ * > 3': weight has no statistic",
    )
    assert [sum(one.startswith(begin) for one in told) for begin in expected] == [1] * len(expected)
    assert len(told) == len(expected)
    assert str(caught.value) == f"configuration: {'; '.join(told)}"


@pytest.mark.parametrize(
    "fields",
    [
        {"every": 0, "subjects": {"loss": 1}},
        {"every": 0, "histograms": {"every": 10}},
        {"every": 0, "flight_recorder": {"steps": 3}},
        {"histograms": {"every": 0}},
        {"exclude": [], "statistics": [], "expected_frozen": [], "watchpoints": [], "on_finding": [], "routers": []},
        {"flight_recorder": {"tensors": []}, "subjects": {"weight": {"windows": []}}},
    ],
    ids=str,
)
def test_nothing_of_a_kind_may_be_asked_for_where_something_else_is_left(fields):
    assert load_config(fields).model_dump(exclude_unset=True).keys() == fields.keys()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "- 1", "must hold keys and values"),
        ("a.yaml", "{", "not valid yaml, line 1: while parsing a flow node expected the node content"),
        ("a.yaml", "every: 1\nmodules: [*.head]\n", "not valid yaml, line 2: while scanning an alias"),
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
