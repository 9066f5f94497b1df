"""`mindscope config` writes what it reads, and `mindscope sites` shows what can be named in it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import yaml
from mindscope.probe import Config, load_config
from mindscope.probe.configuration.cadence import Cadence
from pydantic import BaseModel

EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_pytorch.py"


def test_init_writes_the_defaults_and_never_over_a_file(command: Callable, tmp_path: Path) -> None:
    told = command("config", "init", tmp_path / "monitor.yaml")
    assert told.code == 0
    assert load_config(tmp_path / "monitor.yaml") == load_config()
    again = command("config", "init", tmp_path / "monitor.yaml")
    assert (again.code, again.out) == (2, "")
    assert "exists already" in again.err


def test_init_prints_where_the_file_is_a_dash(command: Callable, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = command("config", "init", "-")
    assert told.code == 0
    (tmp_path / "piped.yaml").write_text(told.out)
    assert load_config(tmp_path / "piped.yaml") == load_config()
    assert [path.name for path in tmp_path.iterdir()] == ["piped.yaml"]


@pytest.fixture
def everything(command: Callable, tmp_path: Path) -> Path:
    """The template with all that is commented out switched on."""
    command("config", "init", tmp_path / "monitor.yaml")
    text = (tmp_path / "monitor.yaml").read_text()
    path = tmp_path / "all.yaml"
    path.write_text("\n".join(re.sub(r"^# (?=[a-z_]+:| )", "", line) for line in text.splitlines()))
    return path


def test_the_settings_that_are_commented_out_are_right_too(command: Callable, everything: Path) -> None:
    assert command("config", "check", everything).code == 0
    config = load_config(everything)
    assert (config.budget, config.depth, len(config.on_finding), len(config.watchpoints)) == (0.03, 3, 2, 2)
    assert config.schedule("gradient").per_decade == 20


def test_the_template_names_every_key_of_the_schema(everything: Path) -> None:
    data = yaml.safe_load(everything.read_text())
    assert list_missing(data, Config) == []


def list_missing(data: object, model: type[BaseModel], place: str = "") -> list[str]:
    """The keys of the model, and of those inside it, that no entry of the data has."""
    entries = [one for one in (data if isinstance(data, list) else [data]) if isinstance(one, dict)]
    missing = []
    for name, field in model.model_fields.items():
        values = [one[name] for one in entries if name in one]
        if not values:
            missing.append(f"{place}{name}")
        for inner in models_in(field.annotation):
            if inner is not Cadence or name == "subjects":  # which shows all of a cadence; other places need not
                held = [*values[0].values()] if name == "subjects" else values[0]
                missing += list_missing(held, inner, f"{place}{name}.")
    return missing


def models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for inner in get_args(annotation) for one in models_in(inner)]


def test_explain_tells_what_happens_on_findings_and_keeps_the_address_to_itself(
    command: Callable, everything: Path
) -> None:
    told = command("config", "explain", everything)
    assert told.code == 0
    words = " ".join(told.out.split())
    for part in (
        "nan @ *, error, and the training waits",
        "gradient/l2_norm @ decoder.* > 10 for 3 steps",
        "alerts:page_me",
        "the last 20 steps",
        "thinned if the monitor costs more than 3 %: tensors first, then whole steps",
    ):
        assert part in words
    assert "example.org" not in words


def test_check_says_what_is_wrong(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text("evry: 3\n")
    told = command("config", "check", tmp_path / "monitor.yaml")
    assert (told.code, told.out) == (2, "")
    assert "did you mean 'every'" in told.err
    (tmp_path / "monitor.yaml").write_text("on_finding: {do: stop, causes: [dead_unit]}\n")
    assert "did you mean 'dead_units'" in command("config", "check", tmp_path / "monitor.yaml").err
    (tmp_path / "monitor.yaml").write_text("every: 3\n")
    assert command("config", "check", tmp_path / "monitor.yaml").code == 0


def test_check_tells_every_mistake_on_a_line_of_its_own(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(
        "every: -1\nnan_trace: maybe\non_finding: [{do: stop, causes: [dead_unit]}, {do: stopp}]\nevery: x\n"
    )
    told = command("config", "check", tmp_path / "monitor.yaml")
    assert (told.code, told.out) == (2, "")
    head, *lines = told.err.splitlines()
    assert head == f"mindscope: {tmp_path / 'monitor.yaml'} has 6 mistakes:"
    assert [line.split(",")[0] for line in lines] == [
        "  key 'every' stands twice",
        "  every must be a whole number",
        "  nan_trace must be true or false",
        "  on_finding[1].do must be one of 'warn'",
        "  every must be 0 or more",
        "  on_finding: no rule finds a cause 'dead_unit'; did you mean 'dead_units'?; docs/catalogue/rules.md has all",
    ]
    document = json.loads(command("config", "check", tmp_path / "monitor.yaml", "--json").out)
    assert document["mistakes"] == [line.strip() for line in lines]
    assert "config" not in document


@pytest.mark.parametrize("verb", ["check", "explain"])
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("monitor.yaml", "every: [1\n", "is not valid yaml, line 2"),
        ("monitor.json", "every: 1\n", "is not valid json"),
        ("train.py", "every: [1\n", "is not valid YAML, line 2"),
        ("monitor.yaml", "- every\n", "must hold keys and values, got list"),
        ("monitor.yaml", None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_as_one_is_told_in_the_document_too(
    command: Callable, tmp_path: Path, verb: str, name: str, text: str | None, said: str
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    told = command("config", verb, "--json", file)
    assert (told.code, told.err) == (2, "")
    document = json.loads(told.out)
    (mistake,) = document.pop("mistakes")
    assert said in mistake
    assert document == {"file": str(file)}
    plain = command("config", verb, file)
    assert (plain.code, plain.out, plain.err) == (2, "", f"mindscope: {mistake}\n")


def test_explain_tells_mistakes_as_check_does(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text("evry: 3\nnan_trace: maybe\non_finding: {do: stop, causes: [dead_unit]}\n")
    told, checked = (command("config", verb, tmp_path / "monitor.yaml") for verb in ("explain", "check"))
    assert told == checked
    assert (told.code, told.out, len(told.err.splitlines())) == (2, "", 4)
    told, checked = (command("config", verb, "--json", tmp_path / "monitor.yaml") for verb in ("explain", "check"))
    assert told == checked
    assert len(json.loads(told.out)["mistakes"]) == 3


def test_explain_tells_when_every_subject_is_due(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text("every: 10\nsubjects: {weight: false, gradient: {first: 5, every: 20}}\n")
    told = command("config", "explain", tmp_path / "monitor.yaml", "--json")
    subjects = json.loads(told.out)["subjects"]
    assert subjects["activation"] == "every 10 steps"
    assert subjects["gradient"] == "every 20 steps and at the first 5"
    assert subjects["weight"] == "never"
    (tmp_path / "monitor.yaml").write_text("every: 1\n")
    told = command("config", "explain", tmp_path / "monitor.yaml", "--json")
    assert json.loads(told.out)["subjects"]["ranks"] == "every 10 steps and at steps 1, 2, 4 and 7"
    assert subjects["time"] == subjects["memory"] == "every 100 steps"  # at each tenth step at which they are due


def test_sites_shows_the_modules_of_a_script_in_the_order_of_their_calls(command: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import numpy as np\n"
        "from mindscope.framework import Key, Tensor, nn, optim\n"
        "print('hello')\n"
        "net = nn.SequentialCell(nn.Dense(4, 8, key=Key(0)), nn.ReLU(), nn.Dense(8, 2, key=Key(1))).set_train()\n"
        "optimizer = optim.SGD(net.trainable_params(), 0.1)\n"
        "net(Tensor(np.ones((3, 4), np.float32)))\n"
        "raise SystemExit('never reached')\n"
    )
    told = command("sites", "--json", script)
    assert told.code == 0, told.err
    sites = json.loads(told.out)["sites"]
    assert [(one["site"], one["kind"], one["calls"]) for one in sites] == [
        ("0", "Dense", 1),
        ("1", "ReLU", 1),
        ("2", "Dense", 1),
        ("", "SequentialCell", 1),
    ]
    assert sites[0]["outputs"] == ["(3, 8) float32"]
    assert [one["parameters"] for one in sites] == [40, 0, 18, 0]
    assert "never reached" not in told.err


def test_a_script_that_trains_nothing_is_said(command: Callable, tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("x = 1\n")
    told = command("sites", tmp_path / "nothing.py")
    assert (told.code, told.out) == (2, "")
    assert "trained no model" in told.err


def test_check_notes_reactions_that_may_come_late(command: Callable, tmp_path: Path) -> None:
    path = tmp_path / "late.yaml"
    path.write_text("every: 5\non_finding: {do: checkpoint, causes: [non_finite_*]}\n")
    told = command("config", "check", path)
    assert (told.code, told.out) == (0, f"{path} is right\n")
    assert "up to 4 steps after the first bad value" in told.err
    assert len(json.loads(command("config", "check", path, "--json").out)["notes"]) == 1
