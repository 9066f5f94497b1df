"""`mindscope ranks` and `mindscope rollup`: who holds up the others, and the roll-up over thousands of ranks."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from .output import print_json
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing


def ranks(run: RunArgument = "latest", store: StoreOption = DEFAULT_STORE, as_document: JsonOption = False) -> int:
    """Tell which rank holds up the others, since when and what it costs."""
    from ..insight.rank_verdict import rank_verdict
    from ..storage.ranks.topology import read_topology

    with open_existing(store) as opened:
        found = opened.find_run(run)
        verdict = rank_verdict(opened, found)
        topology = read_topology(opened, found.id, found.ranks)
    count = max(topology.ranks, len(found.ranks))
    if as_document:
        axes = {axis.name: len(axis.names) for axis in topology.axes}
        print_json({"run": found.id, "ranks": count, "axes": axes, **asdict(verdict)})
        return 0
    print(f"{found.id}  {found.name}  {count:,} {'rank' if count == 1 else 'ranks'}")
    for sentence in (verdict.sentence, *verdict.further):
        print(f"{sentence}.")
    return 0


def rollup(
    run: RunArgument = "latest",
    store: StoreOption = DEFAULT_STORE,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on while the ranks write, and end when the run has ended.")
    ] = False,
    as_document: JsonOption = False,
) -> int:
    """Roll up a run over its ranks: who has the extremes, means and quantiles of every site and step.

    The page Ranks reads the roll-up of runs of more than 64 ranks. Repeated, only new steps are read.
    """
    from ..insight.rank_times import with_work
    from ..storage.ranks.rollup_pass import follow_run, roll_up_run
    from ..storage.ranks.rollup_recorder import RollupOptions

    def told(step: int, last: int) -> None:
        print(f"\rstep {step:,} of {last:,}", end="", file=sys.stderr, flush=True)

    shown = told if sys.stderr.isatty() and not as_document else lambda _step, _last: None
    with open_existing(store) as opened:
        roll = follow_run if follow else roll_up_run
        done = roll(opened, run, RollupOptions(derive=with_work), told=shown)
    if as_document:
        print_json({"run": done.run.id, "first": done.first, "last": done.last, "late": done.late})
    elif done.last < done.first:
        print(f"{done.run.id}: nothing new to roll up, it is rolled up to step {done.last}")
    else:
        print(f"{done.run.id}: steps {done.first} to {done.last} of {len(done.run.ranks)} ranks rolled up")
    return 0
