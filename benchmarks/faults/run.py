"""One run of one case under mindscope: train it, diagnose it, say what was found."""

import gc
import shutil
import tempfile
import time
import warnings
from pathlib import Path

import mindscope
import torch.distributed as dist

from .outcome import Outcome, said
from .script import Script, Watch
from .table import CASES, Case
from .together import train_together


class MindscopeWatcher:
    """The monitor with its defaults and what the script declares."""

    def __init__(self, script: Script, store: str) -> None:
        config = script.declared or None
        self.monitor = mindscope.watch(script.model, script.optimizer, store=store, config=config, run=script.name)
        self.log = self.monitor.log
        self.close = self.monitor.close

    def step_ends(self, step: int, loss: float) -> None:
        """Nothing: the monitor sees the step by itself."""


def run_case(case: Case, seed: int) -> Outcome:
    """What the diagnosis says of this case at this seed; a training that raises is a run like any other."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    began = time.process_time()
    try:
        script, truth = case.prepare(seed)
        if script.world > 1:
            error, seconds = train_together(train_rank, case.name, seed, script.world, folder)
        else:
            error, seconds = train_quietly(script, watch_into(folder)), 0.0
        with mindscope.open_store(folder) as store:
            if not store.runs(limit=1):
                raise RuntimeError(f"case {case.name!r} broke before it was watched: {error}; mend the case")
            diagnosis = mindscope.diagnose(store, "latest")
        alarms, roots = said(diagnosis)
        return Outcome(
            case=case.name,
            seed=seed,
            sites=truth.sites,
            rank=truth.rank,
            onset=truth.onset,
            alarms=alarms,
            roots=roots,
            verdict=diagnosis.verdict,
            seconds=seconds + time.process_time() - began,
            error=error,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        gc.collect()  # a script and what broke it hold each other, and with them every tensor


def watch_into(folder: Path) -> Watch:
    """Watches with mindscope into that store."""
    return lambda script: MindscopeWatcher(script, str(folder))


def train_quietly(script: Script, watch: Watch) -> str:
    """What ended the training, empty if nothing did; its own warnings are nobody's business here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            script.train(watch)
        except (RuntimeError, ValueError, ArithmeticError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def train_rank(name: str, seed: int, rank: int, folder: str, rendezvous: str) -> None:
    """Nothing; one process of several: it trains, and leaves its processor seconds in the folder's neighbour."""
    script, _ = CASES[name].prepare(seed, rank=rank)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=script.world)
    error = train_quietly(script, watch_into(Path(folder)))
    Path(f"{rendezvous}.{rank}").write_text(str(time.process_time()), encoding="utf-8")
    if error:
        raise SystemExit(error)
    dist.destroy_process_group()
