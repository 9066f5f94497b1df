"""Reliability of a model: coverage of its neurons, fuzzing that seeks more of it, and faults in its values."""

from .fault_injection import FAULTS, Fault, FaultOutcome, inject, inject_faults
from .fuzzer import Corpus, Mutators, fuzz
from .neuron_coverage import Coverage, NeuronCoverage, Watched

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
