"""YAML that is made to break its reader is an error with a line, and nothing else."""

import time

import pytest
import yaml
from mindscope.probe import ConfigError, load_config
from mindscope.storage import StoreUnavailable
from mindscope.storage.bounded_yaml import BoundedLoader, TooMuchText
from mindscope.storage.control_channel import FolderChannel


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x]", *(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, levels))]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("every: !!timestamp x", r"line 1: 'x' is no !!timestamp"),
        ("a: 1\nevery: !!int ''", r"line 2: '' is no !!int"),
        ("every: !!float ''", "is no !!float"),
        ("every: !!bool maybe", "is no !!bool"),
        ("every: " + "9" * 5000, "is no !!int"),
        ("every: " + "[" * 3000, "more than 40 levels deep"),
        ("every: " + "{a: " * 3000, "more than 40 levels deep"),
        (_bomb(30), "values here with aliases written out"),
    ],
    ids=["timestamp", "int", "float", "bool", "digits", "brackets", "braces", "aliases"],
)
def test_a_text_that_cannot_be_read_names_its_line(text, words, tmp_path):
    (tmp_path / "monitor.yaml").write_text(text)
    begin = time.process_time()
    with pytest.raises(ConfigError, match=words):
        load_config(tmp_path / "monitor.yaml")
    assert time.process_time() - begin < 2.0


def test_deep_json_is_refused_like_deep_yaml(tmp_path):
    for depth in (50, 100_000):
        (tmp_path / "monitor.json").write_text('{"every": ' + "[" * depth + "]" * depth + "}")
        with pytest.raises(ConfigError, match="deep"):
            load_config(tmp_path / "monitor.json")


def test_what_people_write_stays_within_the_bounds():
    loaded = yaml.load("a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a, e: 2026-01-01}", BoundedLoader)
    assert loaded["c"] == {"b": [1, 2]}
    assert loaded["d"]["b"] == [1, 2]
    assert yaml.load("[" * 39 + "]" * 39, BoundedLoader)
    with pytest.raises(TooMuchText):
        yaml.load("[" * 41 + "]" * 41, BoundedLoader)
    assert len(yaml.load("\n".join(f"- site{at}" for at in range(2000)), BoundedLoader)) == 2000


def test_text_that_is_no_utf8_and_a_file_without_end_are_told(tmp_path):
    (tmp_path / "monitor.yaml").write_bytes("every: 1 # häufig".encode("latin-1"))
    with pytest.raises(ConfigError, match="must be text in UTF-8, got the byte 0xe4 at place 12; save it as UTF-8"):
        load_config(tmp_path / "monitor.yaml")
    with pytest.raises(ConfigError, match="larger than 1024 KB"):
        load_config("/dev/zero")


def test_a_control_document_that_somebody_broke_is_told(tmp_path):
    channel = FolderChannel(tmp_path, "run")
    channel.post("settings", {"every": 2})
    (document,) = tmp_path.iterdir()
    for text in ("every: !!timestamp x", "[" * 3000, _bomb(30)):
        document.write_text(text)
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            channel.read("settings")
