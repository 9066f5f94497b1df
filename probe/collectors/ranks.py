"""Ranks: what processes that train one model must have in common, and what they must not."""

from .collector import array_collector

RANKS = array_collector(
    "ranks",
    None,
    at="before_step",
    columns=(),
    rarity=10,
    doc="""Weights, gradients, batches, random states and times of all ranks, compared at every tenth due step.

    Every rank pins checksums and projections up in the key-value store that connects torch.distributed, without a
    collective and without waiting; rank 0 reads them at a later step and records the events `rank_checksums`,
    `rank_reduction` and `rank_times`. Compared are at most 64 ranks and the parameters that every rank holds whole, not
    those that are sharded or split among them. Costs, in a step that is due, a read of the weights, two of the
    gradients and about 2 us a parameter; on rank 0 about 0.1 ms for every other rank. Weights and gradients on an
    accelerator are measured there, and told one step later. Nothing where there is one process.""",
)
