"""An input is called by its name; one that is called `input` is not named twice."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.model_call import input_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x", "the input x"),
        ("input", "the input"),
        ("input[mask]", "the input[mask]"),
        ("input_ids", "the input input_ids"),
    ],
)
def test_an_input_in_words(name, words):
    assert input_words(name) == words
