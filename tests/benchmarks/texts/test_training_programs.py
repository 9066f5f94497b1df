"""Trainings of a checkout are found with the files that they import; what is said of their texts is counted."""

import textwrap

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks.texts.__main__ import judged
from benchmarks.texts.training_programs import training_programs

FILES = {
    "one/train.py": """
        from lib.engine import fit
        from lib import unused
        if __name__ == "__main__":
            fit(masked_loss)
        def masked_loss(p, mask):
            return p.mean()
    """,
    "one/lib/__init__.py": "",
    "one/lib/engine.py": "def fit(loss):\n    loss(1, 2).backward()\n",
    "one/lib/unused.py": "def other(loss, mask):\n    loss.backward()\n",
    "one/broken.py": "def (",
    "one/tool.py": "if __name__ == '__main__':\n    print(1)\n",
    "two/flat.py": "loss.backward()\nGAMMA = 3\n",
}


@pytest.fixture
def checkouts(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path


def test_a_script_that_reaches_a_backward_pass_is_a_program_with_what_it_imports(checkouts):
    (program,) = training_programs(checkouts / "one")
    names = {path.removeprefix(f"{checkouts}/one/") for path in program.sources}
    assert names == {"train.py", "lib/__init__.py", "lib/engine.py", "lib/unused.py"}
    engine = str(checkouts / "one/lib/engine.py")
    assert program.running == {(program.script, 0), (engine, 1)}


def test_what_is_said_is_counted_by_program_and_repository_and_questions_are_not(checkouts):
    document = judged(checkouts)
    assert [(row["case"], row["value"]) for row in document["results"]] == [("programs", 50.0), ("repositories", 50.0)]
    assert document["repositories"] == ["one", "two"]
    (said,) = document["said"].items()
    assert said[0] == "one/train.py"
    assert "mask, a value of masked_loss" in said[1][0]
