"""The page on the configuration says what the schema says."""

import re
from pathlib import Path

import pytest
import yaml
from mindscope.cli.setting import fields_of
from mindscope.probe import COLLECTORS, ConfigError, Schedule, load_config
from mindscope.probe.actions.attachment import DATABASE_LOOK_S, LOOK_S
from mindscope.probe.configuration.cadence import Cadence
from mindscope.probe.configuration.control import CHANGEABLE, ask_for
from mindscope.storage import MemoryStore

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "configuration.md").read_text()
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]
SETTINGS = dict(re.findall(r"^\| `(\w+)` \| `mindscope set latest (.*)` \|$", PAGE, re.M))


def due(schedule: Schedule, until: int) -> list[int]:
    return [step for step in range(until) if schedule.is_due(step)]


def test_the_cadences_of_the_page_mean_what_it_says() -> None:
    config = load_config(EXAMPLES[0])
    assert config.schedule("loss") == Schedule(10)
    assert (config.schedule("activation"), config.schedule("weight")) == (Schedule(100), Schedule(1))
    assert not config.schedule("optimizer").is_ever_due
    assert due(config.schedule("gradient"), 101) == [*range(20), 50, 100]
    update = due(config.schedule("update"), 5020)
    assert min(update) == 500
    assert {*range(1000, 1011), *range(5000, 5011)} <= {*update}


def test_a_dump_without_a_cadence_is_of_the_first_step_and_one_with_it_is_like_a_subject() -> None:
    dump = load_config(EXAMPLES[1]).dump
    assert dump is not None
    assert due(dump.when.schedule(), 2001) == [0, *range(100, 111), 1000, 2000]
    bare = load_config(dump={"sites": ["head"]}).dump
    assert bare is not None
    assert due(bare.when.schedule(), 2001) == [0]


def test_the_page_names_every_key_of_a_cadence() -> None:
    (table,) = re.findall(r"\| key of a cadence .*?\n\n", PAGE, re.S)
    keys = {key for row in re.findall(r"^\| (.*?) \|", table, re.M) for key in re.findall(r"`(\w+)`", row)}
    assert keys == set(Cadence.model_fields)


def test_every_zero_leaves_what_is_named_and_an_error_where_that_is_nothing() -> None:
    config = load_config(every=0, subjects={"gradient": 2}, histograms={"every": 0})
    assert {name for name in COLLECTORS if config.schedule(name).is_ever_due} == {"gradient"}
    with pytest.raises(ConfigError, match="nothing is ever due"):
        load_config(every=0)


def test_the_keys_that_may_change_under_way_are_those_of_the_page_and_its_examples_are_taken() -> None:
    assert tuple(SETTINGS) == CHANGEABLE
    with MemoryStore() as store:
        for key, words in SETTINGS.items():
            settings = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', words)]
            fields = fields_of(settings)
            assert list(fields) == [key]
            ask_for(store.mailbox("run"), fields)
        with pytest.raises(ConfigError, match="budget cannot change"):
            ask_for(store.mailbox("run"), {"budget": 0.1})


def test_a_change_is_seen_as_soon_as_the_page_says() -> None:
    assert (LOOK_S, DATABASE_LOOK_S) == (0.2, 1.0)
    assert "every 0.2 s, every second where the store is a database" in " ".join(PAGE.split())
