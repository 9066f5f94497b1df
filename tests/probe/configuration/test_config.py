"""What a person writes becomes a configuration, or one clear error."""

import json

import pytest
from mindscope.probe import COLLECTORS, Config, ConfigError, Schedule, load_config
from mindscope.probe.configuration.load import examine


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
        ({"every": -1}, r"every must be 0 or more, got -1; leave it out for 1"),
        ({"subjects": {"weight": {"windows": [[5, 2]]}}}, r"window \[5, 2\] must run"),
        ({"record": "trainin"}, r"record must be one of 'training', .*, got 'trainin'; did you mean 'training'"),
        ({"every": 0, "histograms": {"every": 0}}, r"^configuration: nothing is ever due"),
        ({"every": 0}, r"^configuration: nothing is ever due: `every` is 0 and `subjects` names nothing"),
        ({"subjects": []}, r"^configuration: nothing is ever due"),
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
        ({"budget": "3 percent"}, "budget must be a share, as 0.03, or a percentage, as 3%, got '3 percent'"),
        ({"flight_recorder": {"memory": "1.2.3MB"}}, r"flight_recorder\.memory must be a number of bytes, or one with"),
        ({"subjects": {1: 2}}, "a key must be text, got 1; write it in quotes"),
        ({1: 2}, "a key must be text, got"),
        ({"every": float("nan")}, "every must be a finite number, got NaN"),
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
        "subjects.loss: window [3, 1] must run",
        "subjects.loss: stop 2 must be a later step",
        "watchpoints[0]: condition 'nan @' is not understood",
        "watchpoints[1]: condition 'weight/l2_nrm @ * > 3': weight has no statistic",
    )
    assert [sum(one.startswith(begin) for one in told) for begin in expected] == [1] * len(expected)
    assert len(told) == len(expected)
    assert str(caught.value) == f"configuration: {'; '.join(told)}"


def test_what_is_wrong_elsewhere_hides_no_contradiction_and_makes_none_up():
    clash = {"on_finding": "skip_step", "budget": "3%"}
    _, told = examine({**clash, "nan_trace": "maybe"})
    assert [one.partition(" ")[0] for one in told] == ["nan_trace", "on_finding:"]
    _, told = examine({"every": 0, "subjects": {"weight": "often"}})
    assert len(told) == 1  # whether anything is due, nobody knows yet
    _, told = examine({"every": 0, "subjcts": {"weight": 1}})
    assert told == ("unknown key 'subjcts'; did you mean 'subjects'?",)


@pytest.mark.parametrize(
    "fields",
    [
        {"every": 0, "subjects": {"loss": 1}},
        {"every": 0, "histograms": {"every": 10}},
        {"every": 0, "flight_recorder": {"steps": 3}},
        {"histograms": {"every": 0}},
        {"exclude": [], "statistics": [], "expected_frozen": [], "histograms": {"subjects": []}},
    ],
    ids=str,
)
def test_nothing_of_a_kind_may_be_asked_for_where_something_else_is_left(fields):
    assert load_config(fields).model_dump(exclude_unset=True).keys() == fields.keys()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "every: 1\nmodules: ['*']\nevery: 3\n", ("key 'every' stands twice, in lines 1 and 3; keep one",)),
        (
            "a.yaml",
            "subjects:\n  loss: 1\n  weight: 3\n  weight: 4\n  weight: 5\n",
            ("key 'subjects.weight' stands 3 times, in lines 3, 4 and 5; keep one of them",),
        ),
        (
            "a.yaml",
            "on_finding:\n- do: stop\n  do: pause\nevery: 1\nevery: x\n",
            (
                "key 'every' stands twice",
                "key 'on_finding[0].do' stands twice, in lines 2 and 3",
                "every must be a whole",
            ),
        ),
        ("a.json", '{"every": 1,\n\t"every": 2}', ("key 'every' stands twice, in lines 1 and 2; keep one of them",)),
    ],
)
def test_a_key_that_stands_twice_is_named_with_its_lines(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / name)
    assert [told.startswith(word) for told, word in zip(caught.value.mistakes, words, strict=True)] == [True] * len(
        words
    )


def test_a_key_that_is_merged_in_may_stand_again(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "subjects:\n  weight: &often {every: 5, first: 3}\n  gradient: {<<: *often, every: 7}\n  update: *often\n"
    )
    config = load_config(tmp_path / "a.yaml")
    assert config.schedule("gradient") == Schedule(every=7, first=3)
    assert config.schedule("update") == Schedule(every=5, first=3)


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
