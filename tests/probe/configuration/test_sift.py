"""Every mistake is told at once: what is wrong hides no contradiction among the rest, and makes none up."""

import pytest
from mindscope.probe.configuration.config_loading import examine


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"on_finding": "skip_step", "budget": "3%", "nan_trace": "maybe"},
            ["nan_trace must", "on_finding: skip"],
        ),
        ({"every": 0, "evry": 3}, ["unknown key 'evry'", "nothing is ever due"]),
        (
            {"dump": {"when": 0, "limit_gb": -1, "foldr": "x"}},
            ["dump.limit_gb must", "unknown key 'dump.foldr'", "dump: `when` is never due"],
        ),
        ({"dump": {"when": {"every": 0, "evry": 3}}}, ["unknown key 'dump.when.evry'", "dump: `when` is never due"]),
        (
            {"subjects": {"loss": {"start": 5, "stop": 2, "evry": 3, "windows": [[3, 1], [1, 2]]}}},
            ["subjects.loss.windows[0] must", "unknown key 'subjects.loss.evry'", "subjects.loss: stop 2 must"],
        ),
        (
            {"histograms": {"bins": 7, "scale": "log", "every": -1}},
            ["histograms.every must", "histograms: bins 7"],
        ),
        (
            {"on_finding": [{"do": "stopp"}, {"do": "callback", "keep": 0}, {"do": "callback", "call": "x"}]},
            [
                "on_finding[0].do must",
                "on_finding[1].keep must",
                "on_finding[1]: `call: module:function` belongs",
                "on_finding[2]: call 'x' must read",
            ],
        ),
        ({"every": 0, "subjects": {"weight": False}, 3: 1}, ["a key must be text", "nothing is ever due"]),
    ],
    ids=str,
)
def test_no_mistake_hides_another(fields, words):
    _, told = examine(fields)
    assert [one.startswith(word) for one, word in zip(told, words, strict=True)] == [True] * len(words)


@pytest.mark.parametrize(
    "fields",
    [
        {"every": 0, "subjects": {"weight": "often"}},  # whether anything is due, nobody knows yet
        {"every": 0, "subjcts": {"weight": 1}},
        {"every": 0, "zzz": 1},
        {"dump": {"when": {"every": 0, "frist": 3}}},
        {"dump": {"when": 0}, "flight_recorder": {"steps": 0}},
        {"subjects": {"loss": {"start": "x", "stop": 1}}},
        {"on_finding": {"do": "callback", "call": 3}},
        {"on_finding": [{"do": "callback", "cal": "a:b"}]},
        {"routers": [{"sites": []}]},
        {"webhook": {"url": "x"}},
    ],
    ids=str,
)
def test_one_mistake_is_told_as_one(fields):
    _, told = examine(fields)
    assert len(told) == 1


def test_what_is_right_is_left():
    config, told = examine(
        {"every": 3, "evry": 1, "dump": {"sites": ["a"], "limit_gb": "x"}, "on_finding": ["stop", "stopp"]}
    )
    assert config is not None
    assert len(told) == 3
    assert (config.every, config.dump.sites, [one.do for one in config.on_finding]) == (3, ("a",), ["stop"])
