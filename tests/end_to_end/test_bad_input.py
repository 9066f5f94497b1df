"""What a user gets wrong is told in one line, with the nearest known name, and an exit code; never with a traceback."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mindscope.storage import open_store


def _demo(tmp_path: Path, *options: str) -> list[str]:
    return ["demo", "--model", "cnn", "--steps", "2", "--no-dashboard", "--store", str(tmp_path / "runs"), *options]


def _config(tmp_path: Path, text: str) -> str:
    path = tmp_path / "monitor.yaml"
    path.write_text(text)
    return str(path)


def _store(tmp_path: Path) -> Path:
    with open_store(str(tmp_path / "runs")) as store:
        store.begin_run("digits").close()
    return tmp_path / "runs"


def unknown_key(tmp_path: Path) -> list[str]:
    return _demo(tmp_path, "--config", _config(tmp_path, "evry: 2\n"))


def pattern_without_a_match(tmp_path: Path) -> list[str]:
    return _demo(tmp_path, "--config", _config(tmp_path, "modules: ['no_such_layer.*']\n"))


def missing_config(tmp_path: Path) -> list[str]:
    return _demo(tmp_path, "--config", str(tmp_path / "nowhere.yaml"))


def store_that_cannot_be_written(tmp_path: Path) -> list[str]:
    (tmp_path / "runs").write_text("a file where the folder should be")
    return _demo(tmp_path)


def store_of_a_newer_schema(tmp_path: Path) -> list[str]:
    (path,) = _store(tmp_path).glob("*.rank0.db")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE meta SET value = '9999' WHERE key = 'schema_version'")
    return ["show", "latest", "--store", str(path)]


def file_that_is_no_store(tmp_path: Path) -> list[str]:
    (tmp_path / "run.rank0.db").write_bytes(b"no database" * 1000)
    return ["runs", str(tmp_path / "run.rank0.db")]


def missing_store(tmp_path: Path) -> list[str]:
    return ["runs", str(tmp_path / "nowhere")]


def missing_script(tmp_path: Path) -> list[str]:
    (tmp_path / "train.py").write_text("")
    return ["run", "--store", str(tmp_path / "runs"), "--", str(tmp_path / "trian.py"), "--lr", "3"]


def pattern_that_only_the_scripts_model_shows_wrong(tmp_path: Path) -> list[str]:
    (tmp_path / "plain.py").write_text(
        "from mindscope.framework import Key, Tensor, nn\n"
        "model = nn.SequentialCell(nn.Dense(2, 3, key=Key(0)), nn.ReLU()).set_train()\n"
        "model(Tensor([[1.0, 2.0]]))\n"
        "print('trained')\n"
    )
    config = _config(tmp_path, "exclude: ['*.dropuot']\n")
    return ["run", "--config", config, "--store", str(tmp_path / "runs"), "--", str(tmp_path / "plain.py")]


def unknown_run(tmp_path: Path) -> list[str]:
    return ["diagnose", "digit", "--store", str(_store(tmp_path))]


CASES = [
    (unknown_key, 2, "did you mean 'every'"),
    (pattern_without_a_match, 2, "no_such_layer"),
    (missing_config, 2, "nowhere.yaml"),
    (store_that_cannot_be_written, 3, "runs"),
    (store_of_a_newer_schema, 3, "9999"),
    (file_that_is_no_store, 3, "run.rank0.db"),
    (missing_store, 3, "mindscope demo"),
    (missing_script, 2, "train.py"),
    (pattern_that_only_the_scripts_model_shows_wrong, 2, "'*.dropuot' matches none"),
    (unknown_run, 2, "digits"),
]


@pytest.mark.parametrize(("case", "code", "words"), CASES, ids=[case[0].__name__ for case in CASES])
def test_bad_input_is_one_clear_line(
    case: Callable[[Path], list[str]], code: int, words: str, tmp_path: Path, command: Callable
) -> None:
    told = command(*case(tmp_path))
    assert told.code == code, told.err
    assert told.out == ""
    assert words in told.err
    assert told.err.startswith("mindscope: ")
    assert told.err.count("\n") == 1, told.err
