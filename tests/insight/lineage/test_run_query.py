"""Conditions over runs, joined as a person types them."""

import pytest
from mindscope.insight.errors import UnknownField, WrongCondition
from mindscope.insight.lineage import Provenance, parse_query

ROWS = (
    Provenance("a", {"name": "gpt one", "tag.lr": 1e-3, "loss": 1.5, "val/loss": 1.8, "state": "finished"}),
    Provenance("b", {"name": "gpt and more", "tag.lr": 1e-5, "loss": 1.2, "val/loss": 2.5, "state": "failed"}),
    Provenance("c", {"name": "mlp", "tag.lr": 1e-2, "loss": float("nan"), "state": "finished"}),
)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("", "abc"),
        ("loss < 2 and tags.lr > 1e-4", "a"),
        ("loss < 2 or tags.lr > 1e-4", "abc"),
        ("not loss < 2", "c"),
        ("NOT (state = finished and lr > 5e-3)", "ab"),
        ("(lr < 1e-4 or lr > 5e-3) and loss<2", "b"),
        ("state = finished, lr > 5e-3 or name ~ gpt*", "ac"),
        ("name = 'gpt and more'", "b"),
        ('name ~ "gpt*" and not name = "gpt one"', "b"),
        ("val/loss < 2", "a"),
        ("name = gpt one", "a"),
    ],
)
def test_conditions_are_joined_as_they_read(text, runs):
    assert "".join(row.run for row in parse_query(text).select(ROWS)) == runs


@pytest.mark.parametrize("text", ["loss < 2 and", "(loss < 2", "loss < 2 (lr > 1)", "and", "not", "()", "loss < 2, "])
def test_what_does_not_join_is_told_with_an_example(text):
    with pytest.raises(WrongCondition, match=r"for example 'loss < 2 and tags\.lr > 1e-4'"):
        parse_query(text)


@pytest.mark.parametrize("text", ["__import__('os') and 1", "loss.__class__", "x" * 2000, "(" * 900 + "lr > 1"])
def test_nothing_but_conditions_is_read(text):
    with pytest.raises(WrongCondition):
        parse_query(text)


def test_an_unknown_field_gets_the_nearest_name():
    with pytest.raises(UnknownField, match=r"did you mean 'tag\.lr'"):
        parse_query("loss < 2 and tag.lrr > 1").select(ROWS)
