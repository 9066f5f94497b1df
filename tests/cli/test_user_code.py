from pathlib import Path

import numpy as np
import pytest
from mindscope.cli.failures import WrongUse, describe
from mindscope.cli.user_code import load_model, load_samples


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "a_model_of_ours.py"
    path.write_text(
        "class Net:\n"
        "    def parameters(self): return []\n"
        "    def __call__(self, x): raise AssertionError('a model is not called to make it')\n"
        "def make_net(): return Net()\n"
        "ready = Net()\n"
    )
    return path


@pytest.mark.parametrize("name", ["Net", "make_net", "ready"])
def test_a_model_is_taken_from_a_file_by_name_made_if_need_be(model_file: Path, name: str) -> None:
    assert type(load_model(f"{model_file}:{name}")).__name__ == "Net"


def test_a_model_is_taken_from_a_module() -> None:
    assert load_model("collections:OrderedDict") == {}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("model.py", "'file.py:name'"),
        ("nowhere.py:net", "no file at 'nowhere.py'"),
        ("no_such_module:net", "no module 'no_such_module'"),
        ("collections:OrderedDic", "did you mean 'OrderedDict'"),
    ],
)
def test_a_model_that_is_not_there_is_told_clearly(reference: str, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        load_model(reference)


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (
            "x = 1\nraise KeyError('lost')\n",
            "net",
            "{file} cannot be loaded: {file}, line 2, KeyError: 'lost'; fix it",
        ),
        ("def build(: pass\n", "build", "{file} cannot be loaded: {file}, line 1, SyntaxError: invalid syntax; fix"),
        ("import no_such_module\n", "net", "{file}, line 1, ModuleNotFoundError: No module named 'no_such_module'; "),
        ("import sys\nsys.exit(3)\n", "net", "{file} cannot be loaded: {file}, line 2, SystemExit: 3; fix it there"),
        ("import json\ndef net():\n    json.loads('{{')\n", "net", "{file}:net makes no model: {file}, line 3, JSON"),
        (
            "def net():\n    assert False\n",
            "net",
            "{file}, line 2, AssertionError; fix it there, or see the traceback with",
        ),
        ("def net(size, depth=2): pass\n", "net", "{file}:net needs size, but it is called without arguments"),
    ],
    ids=["raises", "no Python", "lacks a module", "exits", "raises deeper down", "says nothing", "needs arguments"],
)
def test_what_is_wrong_in_the_users_own_file_is_told_with_its_place_and_as_no_fault_of_ours(
    tmp_path: Path, text: str, name: str, told: str
) -> None:
    file = tmp_path / "of_our_own.py"
    file.write_text(text.replace("{{", "{"))
    with pytest.raises(WrongUse) as caught:
        load_model(f"{file}:{name}")
    assert told.format(file=file) in str(caught.value)
    assert describe(caught.value)[0] == 2


def test_a_class_that_needs_arguments_is_told_which() -> None:
    with pytest.raises(WrongUse, match=r"Dense needs in_channels, out_channels, .* takes none and returns the model"):
        load_model("mindscope.framework.nn:Dense")


def test_a_module_that_lacks_another_is_not_said_to_be_missing_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking_one.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WrongUse, match=r"lacking_one cannot be loaded: .*lacking_one\.py, line 1, ModuleNotFoundError"):
        load_model("lacking_one:net")


def test_samples_come_from_an_npz_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((2, 3)), y=np.array([0, 1]))
    x, y = load_samples(str(tmp_path / "data.npz"))
    assert (x.shape, y.tolist()) == ((2, 3), [0, 1])


def test_samples_without_labels_are_told_with_what_the_file_holds(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones(2), labels=np.ones(2))
    with pytest.raises(WrongUse, match="lacks y; it holds x, labels"):
        load_samples(str(tmp_path / "data.npz"))


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"PK\x03\x04 torn"])
def test_what_is_no_npz_file_is_told_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(WrongUse, match=r"not an \.npz file"):
        load_samples(str(tmp_path / "data.npz"))


def test_samples_that_are_not_there_are_told_clearly() -> None:
    with pytest.raises(WrongUse, match="no data at"):
        load_samples("nowhere.npz")
