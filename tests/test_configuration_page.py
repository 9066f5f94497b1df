"""The page on the configuration says what the schema says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_origin

import pytest
import yaml
from mindscope.cli.configuration_commands import fields_of
from mindscope.probe import COLLECTORS, Config, ConfigError, Schedule, load_config
from mindscope.probe.actions.attachment import DATABASE_LOOK_S, LOOK_S
from mindscope.probe.configuration.cadence import Cadence
from mindscope.probe.reconfiguration import CHANGEABLE, request_change
from mindscope.storage import MemoryStore
from pydantic import BaseModel

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "configuration.md").read_text()
EXAMPLES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]
SETTINGS = dict(re.findall(r"^\| `(\w+)` \| `mindscope set latest (.*)` \|$", PAGE, re.M))


def due(schedule: Schedule, until: int) -> list[int]:
    return [step for step in range(until) if schedule.is_due(step)]


def test_the_schedules_of_the_page_mean_what_it_says() -> None:
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


def test_the_page_names_every_key_of_a_schedule() -> None:
    (table,) = re.findall(r"\| key of a schedule .*?\n\n", PAGE, re.S)
    keys = {key for row in re.findall(r"^\| (.*?) \|", table, re.M) for key in re.findall(r"`(\w+)`", row)}
    assert keys == set(Cadence.model_fields)


def holding(key: str, value: object) -> dict[str, object]:
    """A configuration that has the value at this key, and nothing else that is wrong."""
    outer, _, inner = key.rpartition(".")
    whole = {"routers": [{"sites": ["*"], inner: value}], "on_finding": [{"do": "stop", inner: value}]}
    return {outer: whole.get(outer, {inner: value})} if outer else {key: value}


def lists_of(model: type[BaseModel], place: str = "") -> set[str]:
    """The keys of all lists in the schema; those of cadences once."""
    found = set()
    for name, field in model.model_fields.items():
        parts = [one for one in parts_in(field.annotation) if one is not Cadence]
        found |= {key for part in parts for key in lists_of(part, f"{place}{name}.")}
        if get_origin(field.annotation) is tuple:
            found.add(f"{place}{name}")
    return found


def parts_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for inner in get_args(annotation) for one in parts_in(inner)]


def test_the_page_says_of_every_list_what_it_means_when_it_is_empty() -> None:
    choosing, adding = (
        re.findall(r"`([\w.]+)`", row)
        for row in re.findall(r"^\| is .*? where the list \w+.*? \| (.*) \|$", PAGE, re.M)
    )
    assert {*choosing, *adding} == {*lists_of(Config), "subjects", "windows"}
    for key in choosing:
        with pytest.raises(ConfigError, match=r"got \[\]; leave it out for|got \[\]$"):
            load_config(holding(key, []))
    for key in adding:
        if key != "windows":
            assert load_config(holding(key, [])) == load_config({key.split(".")[0]: {}} if "." in key else None)
    assert load_config(subjects={"loss": {"windows": []}}) == load_config(subjects={"loss": {}})


def test_null_is_as_if_the_key_were_not_there_where_the_page_says_so() -> None:
    (words,) = re.findall(r"as if it were not there for (.*?), and an error for all others", PAGE.replace("\n", " "))
    named = set(re.findall(r"`(\w+)`", words))
    for key in Config.model_fields:
        if key in named:
            assert load_config({key: None}) == load_config()
        else:
            with pytest.raises(ConfigError, match=f"{key} must be .*, got null"):
                load_config({key: None})


def test_keys_and_values_change_what_they_name_and_a_list_is_all_there_is() -> None:
    rows = re.findall(r"^\| `(subjects: .*?)`(?: and `(every: 0)`)? \| (.*?) \| (.*?) \|$", PAGE, re.M)
    assert [(named, others) for _, _, named, others in rows] == [
        ("as it says", "as `every` says"),
        ("at every step, whatever `every` says", "never"),
        ("as it says", "never"),
    ]
    found = [load_config({"every": 5, **yaml.safe_load(f"{text}\n{every}")}) for text, every, _, _ in rows]
    told = [[config.schedule(name) for name in ("gradient", "loss", "weight")] for config in found]
    assert told[0] == [Schedule(10), Schedule(1), Schedule(5)]
    assert told[1] == [Schedule(1), Schedule(1), Schedule(0)]
    assert told[2] == [Schedule(10), Schedule(1), Schedule(0)]
    assert [config.schedule("histogram") for config in found] == [Schedule(100)] * 3


def test_a_bare_one_is_no_budget() -> None:
    for written in re.search(r"write `(1%)` or\s`(0.01)`", PAGE).groups():  # type: ignore[union-attr]
        assert load_config(budget=yaml.safe_load(written)).budget == 0.01
    with pytest.raises(ConfigError, match=r"write 1% or 0\.01"):
        load_config(budget=1)


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
            request_change(store.control_channel("run"), fields)
        with pytest.raises(ConfigError, match="budget cannot change"):
            request_change(store.control_channel("run"), {"budget": 0.1})


def test_a_change_is_seen_as_soon_as_the_page_says() -> None:
    assert (LOOK_S, DATABASE_LOOK_S) == (0.2, 1.0)
    assert "every 0.2 s, every second where the store is a database" in " ".join(PAGE.split())


@pytest.fixture
def dumping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's configuration of a dump, and a script that trains a model with a head."""
    pytest.importorskip("torch", reason="PyTorch (torch) is not installed")
    (tmp_path / "monitor.yaml").write_text(yaml.safe_dump(EXAMPLES[1]))
    (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MINDSCOPE_STORE", raising=False)
    return tmp_path


TRAINING = """
import torch

torch.manual_seed(0)
model = torch.nn.ModuleDict({"body": torch.nn.Linear(4, 8), "head": torch.nn.Linear(8, 1)})
model.forward = lambda x: model["head"](model["body"](x))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_the_commands_and_the_program_of_the_page_on_dumped_tensors_do_what_it_says(dumping: Path) -> None:
    commands = re.findall(r"^\$ mindscope (.*)$", PAGE, re.M)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    printed = {}
    for words in [*commands, None]:
        called = ["-c", program] if words is None else ["-m", "mindscope", *shlex.split(words)]
        done = subprocess.run([sys.executable, *called], cwd=dumping, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stderr}"
        printed[words] = " ".join(done.stdout.split())
    what = r"4 whole tensors \(input, activation, weight of head\[0\], head, head.weight, head.bias; step 0\)"
    assert re.search(rf"dumped: {what}, \d+ B in runs/\S+-first-\w+\.tensors", printed["show first"])
    assert "tensor head" in printed["events first --kind tensor"]
    assert "all 4 tensors that both have dumped are equal" in printed["compare first second --tensors"]
    assert "0 head activation (2, 1)" in printed[None]
