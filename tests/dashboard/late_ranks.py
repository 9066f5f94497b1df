"""A run of which only ranks 2 and 3 were recorded, as where the files of the first ranks were not imported."""

from dataclasses import replace

from mindscope.storage import Run, Store

from .recorded import Plan, findings, records, structure_of

RANKS = (2, 3)


def write_late_ranks(store: Store, name: str = "late", steps: int = 200) -> Run:
    """Writes the whole run; its ranks differ by their seeds, and rank 2 has the findings."""
    for rank in RANKS:
        plan = Plan(steps=steps, seed=rank)
        writer = store.begin_run(name, framework="pytorch", run_id=name, rank=rank)
        writer.write_structure(structure_of(plan))
        found = [replace(finding, rank=rank) for finding in findings()] if rank == RANKS[0] else []
        writer.write(list(records(plan)), found)
        writer.close("finished")
    return store.find_run(name)
