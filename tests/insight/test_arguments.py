"""The words of a call by name, wherever two calls are compared."""

import pytest
from mindscope.insight.script_arguments import named_arguments


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--lr", "3", "--name=a b", "-v"], {"lr": "3", "name": "a b", "v": True}),
        (
            ["data", "--bias", "-0.5", "model.depth=4", "more"],
            {"1": "data", "bias": "-0.5", "model.depth": "4", "2": "more"},
        ),
        (["--tag", "a", "--tag=b", "--quick", "--lr", "-.1"], {"tag": ["a", "b"], "quick": True, "lr": "-.1"}),
        (["-", "--", "x"], {"1": "-", "2": "--", "3": "x"}),
    ],
)
def test_words_go_by_their_names_or_places(words, named):
    assert named_arguments({"arguments": words}) == named


def test_a_run_without_arguments_has_none():
    assert named_arguments({"node": "n1"}) == {}
