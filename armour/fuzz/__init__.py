"""How reliable a model is: coverage of its neurons, fuzzing that seeks more of it, and faults in its values."""

from .activations import Watched
from .coverage import Coverage, NeuronCoverage
from .faults import FAULTS, Fault, FaultOutcome, inject, inject_faults
from .fuzzer import Corpus, Mutators, fuzz

__all__ = [
    "FAULTS",
    "Corpus",
    "Coverage",
    "Fault",
    "FaultOutcome",
    "Mutators",
    "NeuronCoverage",
    "Watched",
    "fuzz",
    "inject",
    "inject_faults",
]
