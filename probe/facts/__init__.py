"""Facts of a training, recorded beside its numbers: modes, losses, clipping, states, where it started and ran."""

from .causality import Causality, NotASequence, check_causality
from .environment import environment
from .training_facts import Facts, Source

__all__ = ["Causality", "Facts", "NotASequence", "Source", "check_causality", "environment"]
