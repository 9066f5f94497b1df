"""The module that a change is about, as a program keeps it."""

import ast

import pytest

from benchmarks.mutations import OPERATORS
from benchmarks.mutations.program import Program
from benchmarks.mutations.sites import inside_of, is_layer, made_as
from benchmarks.zoo.entries import ENTRIES

PROGRAM = """
class Attention(nn.Module):
    def __init__(self):
        self.scale = one(1)
        self.twice = two(2)

    def forward(self, x):
        return here(x)


class Block(nn.Module):
    def __init__(self):
        self.attention = Attention()
        self.mlp = nn.Sequential(three(3), nn.Sequential(nn.ReLU(), four(4)), nn.Dropout(0.1))
        self.starred = nn.Sequential(*before, five(5))
        self.wrapped = nn.Sequential(nn.ReLU(), Residual(six(6)))
        self.left, self.right = seven(7), eight(8)
        self.q, self.k = (nine(9) for _ in range(2))
        self.items = nn.ModuleList([ten(10) for _ in range(2)])
        self.twice = eleven(11)
        self.dropout = nn.Dropout(0.1)

    def encode(self, x):
        return there(x)


class Agent:
    def __init__(self):
        self.actor = twelve(12)


model = Block()
model.head = thirteen(13)
"""
MADE = {
    "one": "scale",
    "two": "",  # of two classes
    "three": "mlp.0",
    "four": "mlp.1.1",
    "five": "starred",
    "six": "wrapped.1",
    "seven": "left",
    "eight": "right",
    "nine": "",
    "ten": "items",
    "eleven": "",
    "twelve": "",  # of no module
    "thirteen": "head",
}


def call_of(program, name):
    return next(program.calls(name))


@pytest.mark.parametrize(("name", "attribute"), MADE.items(), ids=MADE)
def test_a_module_has_the_attribute_that_holds_it(name, attribute):
    program = Program(PROGRAM)
    assert made_as(program, call_of(program, name)) == attribute


def test_what_a_class_does_is_done_where_its_only_instances_are_kept():
    program = Program(PROGRAM)
    assert inside_of(program, call_of(program, "here")) == "attention"
    assert inside_of(program, call_of(program, "there")) == ""  # the whole model
    assert inside_of(program, call_of(program, "thirteen")) == ""


def test_instances_under_several_attributes_or_of_a_subclass_tell_no_site():
    twice = Program(PROGRAM.replace("self.left, self.right = seven(7)", "self.left, self.right = Attention()"))
    derived = Program(PROGRAM + "\n\nclass Sparse(Attention):\n    pass\n")
    for program in (twice, derived):
        assert inside_of(program, call_of(program, "here")) == ""


def test_a_method_a_dropout_and_a_name_of_two_classes_are_no_layers_that_stop_learning():
    program = Program(PROGRAM)
    assert [is_layer(program, name) for name in ("left", "encode", "dropout", "twice")] == [True, False, False, False]


@pytest.mark.parametrize(
    ("operator", "entry", "attribute"),
    [
        ("open-mask", "charlm", "attn"),
        ("unscaled-attention", "charlm", "attn"),
        ("reshaped-for-transposed", "charlm", "attn"),
        ("removed-residual", "charlm", "h"),
        ("no-dropout", "charlm", "mlp.3"),
        ("removed-normalisation", "lora", "norm1"),
        ("no-bias", "ppo", "critic.0"),
        ("batch-second", "lstm_forecast", "lstm"),
    ],
)
def test_operators_name_the_module_that_they_break(operator, entry, attribute):
    changes = OPERATORS[operator].changes(ENTRIES[entry].program.read_text())
    assert changes[0].attribute == attribute


def test_every_attribute_that_is_named_is_one_of_the_program():
    for entry in ENTRIES.values():
        source = entry.program.read_text()
        kept = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
        for operator in OPERATORS.values():
            assert {change.attribute.split(".")[0] for change in operator.changes(source)} <= kept | {""}
