"""What is saved or stopped where bad values are not looked for at every step may be late, and that is said."""

import logging
import re

import mindscope as ms
import pytest
from mindscope.framework import Key, nn
from mindscope.probe import load_config
from mindscope.probe.configuration.late_reactions import late_reactions

CHECKPOINT = [{"do": "checkpoint", "causes": ["non_finite_*"]}]
GRADIENT = [{"do": "checkpoint", "causes": ["non_finite_gradient"]}]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"every": 5, "on_finding": CHECKPOINT}, "`gradient` is at every 5 steps; .* the state of up to 4 steps after"),
        ({"every": 2, "on_finding": "stop"}, "`gradient` is at every 2 steps; .* go on for up to 1 step after the"),
        ({"subjects": {"gradient": 3}, "on_finding": GRADIENT}, "`gradient` is at every 3 steps; .* up to 2 st"),
        ({"subjects": {"gradient": False}, "on_finding": "stop"}, "`gradient` is never; .* go on for some steps after"),
        ({"subjects": {"gradient": {"start": 9}}, "on_finding": "stop"}, "`gradient` is not at every step; "),
        ({"budget": 0.1, "on_finding": "stop"}, "`gradient` may be thinned by `budget`; .*`budget` sees it in its own"),
    ],
)  # fmt: skip
def test_a_late_reaction_is_told_with_the_subjects_and_the_distance(config, words):
    (told,) = late_reactions(load_config(config))
    assert told.startswith("on_finding: ")
    assert re.search(words, told)


@pytest.mark.parametrize(
    "config",
    [
        {"on_finding": ["stop", "checkpoint"]},
        {"every": 5, "subjects": {"gradient": 1}, "on_finding": ["stop", *CHECKPOINT]},
        {"every": 5, "on_finding": [{"do": "checkpoint", "causes": ["loss_spike"]}, "pause"]},
        {"every": 5, "flight_recorder": {"steps": 4}, "on_finding": "stop"},
        {"every": 5},
    ],
)
def test_nothing_is_said_where_nothing_is_late(config):
    assert late_reactions(load_config(config)) == ()


def test_watch_says_it_and_records(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        ms.watch(nn.Dense(2, 2, key=Key(0)), store=tmp_path, config={"every": 5, "on_finding": CHECKPOINT}).close()
    assert [one for one in caplog.messages if "the state of up to 4 steps after the first bad value" in one]
