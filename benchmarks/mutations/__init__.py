"""Mutation operators: they break any program, as published taxonomies say that programs break."""

from . import data_operators, loss_operators, model_operators, optimizer_operators, reinforcement_operators
from .harm import Harm, harm
from .mutant import Mutant, write_module_mutant, write_mutant
from .registry import OPERATORS, Change, Operator, operator

__all__ = [
    "OPERATORS",
    "Change",
    "Harm",
    "Mutant",
    "Operator",
    "harm",
    "operator",
    "write_module_mutant",
    "write_mutant",
]
