"""`vmap`: a function of one sample becomes a function of a batch, with one application of each primitive, not a loop.

The samples travel together in a `BatchedTensor`, whose shape is that of one of them. It intercepts every primitive; the
rule of the primitive in `BATCHING` says how it is applied to all samples at once.
"""

from . import array_rules, indexing_rules, layer_rules
from .batched import BATCHING, batching
from .vmap_transform import vmap

__all__ = ["BATCHING", "batching", "vmap"]
