"""Several processes that do not do the same."""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ..script import Script
from ..table import Truth, fault


def _one_rank(script: Script, first: int = 1) -> int:
    return int(script.pick.integers(first, script.world))


@fault("not-broadcast", on="by-hand", cause=("rank_desync", "rank_rng_error"), is_silent=True)
def not_broadcast(script: Script) -> Truth:
    """Every rank seeds itself and keeps its own first weights."""

    def wrap(net: Any) -> Any:
        torch.manual_seed(script.seed + 100 * script.rank)
        return type(net)()

    script.wrap = wrap
    return Truth()


@fault("loaded-on-one-rank", on="ddp", cause="rank_desync", is_silent=True)
def loaded_on_one_rank(script: Script) -> Truth:
    """A checkpoint is loaded on one rank alone, after the model was wrapped."""
    odd = script.world - 1

    def wrap(net: Any) -> Any:
        wrapped = DistributedDataParallel(net)
        if script.rank == odd:
            other = type(net)()
            wrapped.module.load_state_dict(other.state_dict())
        return wrapped

    script.wrap = wrap
    return Truth()


@fault("forgotten-all-reduce", on="by-hand", cause="rank_desync", is_silent=True)
def forgotten_all_reduce(script: Script) -> Truth:
    """The head was added later, and its gradients are reduced nowhere."""
    script.reduced = lambda: [p for name, p in script.model.named_parameters() if not name.startswith("head")]
    return Truth(sites=("head",))


@fault("no-sync-left-on", on="ddp-4", cause=("rank_desync", "rank_dropped"), is_silent=True)
def no_sync_left_on(script: Script) -> Truth:
    """Accumulation was tried and given up, and the step still runs under `no_sync`: nobody's gradients are reduced."""

    def train_step() -> float:
        with script.model.no_sync():
            return type(script).train_step(script)

    script.train_step = train_step
    return Truth()


@fault("sum-for-mean", on="by-hand", cause="reduce_scale", is_silent=True)
def sum_for_mean(script: Script) -> Truth:
    """The gradients are summed over the ranks and never divided."""

    def reduce() -> None:
        for parameter in script.reduced():
            dist.all_reduce(parameter.grad)

    script.reduce = reduce
    return Truth()


@fault("mean-twice", on="ddp", cause="reduce_scale", is_silent=True)
def mean_twice(script: Script) -> Truth:
    """DistributedDataParallel averages, and the loop divides once more by the number of ranks, from older code."""

    def update(loss: Any) -> None:
        script.optimizer.zero_grad()
        loss.backward()
        for parameter in script.model.parameters():
            parameter.grad /= script.world
        script.optimizer.step()

    script.update = update
    return Truth()


@fault("rank-left-out", on="by-hand", cause="rank_dropped", is_silent=True)
def rank_left_out(script: Script) -> Truth:
    """One rank's share is multiplied by a mask that is zero there: the mean is one over fewer."""
    lost = _one_rank(script)

    def reduce() -> None:
        for parameter in script.reduced():
            if script.rank == lost:
                parameter.grad.zero_()
            dist.all_reduce(parameter.grad)
            parameter.grad /= script.world

    script.reduce = reduce
    return Truth(rank=lost)


@fault("flipped-bits", on="ddp", cause=("silent_data_corruption", "rank_desync"), is_silent=True)
def flipped_bits(script: Script) -> Truth:
    """A bit flips in one weight of one rank, and nobody is told."""
    script.steps = 110
    onset, odd = int(script.pick.integers(30, 48)), _one_rank(script, 0)

    def flip() -> None:
        if script.rank == odd:
            weight = script.model.module.fc2.weight.data.view(-1)
            weight[7] = -3.0 * weight[7] - 0.5

    script.at(onset, flip)
    return Truth(sites=("fc2", "module.fc2"), rank=odd, onset=onset)


@fault("bad-device", on="ddp-4", cause="silent_data_corruption", is_silent=True)
def bad_device(script: Script) -> Truth:
    """One rank's accelerator computes wrongly: one column of a gradient is garbage before it is reduced."""
    odd = _one_rank(script, 0)

    def wrap(net: Any) -> Any:
        if script.rank == odd:

            def spoil(gradient: Any) -> Any:
                spoiled = gradient.clone()
                spoiled[:, 0] = 30.0
                return spoiled

            net.fc2.weight.register_hook(spoil)
        return DistributedDataParallel(net)

    script.wrap = wrap
    return Truth(sites=("fc2", "module.fc2"), rank=odd)


@fault("no-sampler", on="ddp", cause="identical_rank_data", is_silent=True)
def no_sampler(script: Script) -> Truth:
    """Nobody gave the loader a distributed sampler: every rank reads the same batches."""
    script.shard = lambda indices: indices
    return Truth()


@fault("same-masks", on="ddp-4", cause="rank_rng_error", is_silent=True)
def same_masks(script: Script) -> Truth:
    """Every rank is seeded alike, so that all draw the same dropout masks."""
    script.dropout_seed = lambda: 5 + script.seed
    return Truth()


@fault("slow-rank", on="ddp", cause="straggler", is_silent=True)
def slow_rank(script: Script) -> Truth:
    """One rank shares its host with another job."""
    slow, loss = _one_rank(script, 0), script.loss

    def wait(model: Any, *batch: Any) -> Any:
        if script.rank == slow:
            time.sleep(0.03)
        return loss(model, *batch)

    script.loss = wait
    return Truth(rank=slow)


@fault("rate-of-one-rank", on="by-hand", cause="rank_desync", is_silent=True)
def rate_of_one_rank(script: Script) -> Truth:
    """One host has an older configuration file, with another rate."""
    odd = _one_rank(script)
    if script.rank == odd:
        script.rate = 2.0 * script.rate
    return Truth(rank=odd, onset=1)
