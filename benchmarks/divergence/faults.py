"""The injected faults: each replaces one piece of a healthy training, on one rank or on all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .training import Training, mean_over

Inject = Callable[[Any], object]
_DESYNC, _CORRUPT = "rank_desync", "silent_data_corruption"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a training, and what a diagnosis should say of it.

    Args:
        kind: Of the training that it is injected into.
        causes: That are right.
        inject: Changes the training before it begins.
        rank: At which the fault is; None where all ranks do the same.
        site: Part of the site that is at fault; empty for the whole model.
    """

    kind: str
    causes: tuple[str, ...]
    inject: Inject
    rank: int | None = None
    site: str = ""


#: By name.
FAULTS: dict[str, Fault] = {}


def _fault(kind: str, *causes: str, rank: int | None = None, site: str = "") -> Callable[[Inject], Inject]:
    def register(inject: Inject) -> Inject:
        name = f"{kind}/{inject.__name__.strip('_').replace('_', '-')}"
        FAULTS[name] = Fault(kind, causes, inject, rank, site)
        return inject

    return register


def _perturb(name: str, *, by: float = 0.05) -> Callable[[Any], Callable[[], None]]:
    def of(training: Any) -> Callable[[], None]:
        return lambda: training.parameter(name).data.mul_(1.0 + by)

    return of


def _on(training: Training, rank: int, step: int, act: Callable[[], object]) -> None:
    if training.on(rank):
        training.at(step, act)


def _skip_update(training: Any, rank: int, steps: range) -> None:
    update = training.update
    training.update = lambda: None if training.on(rank) and training.step in steps else update()


def _flip(tensor: torch.Tensor, place: int = 7) -> None:
    """Flip the highest bit of an element's exponent but one."""
    bits = tensor.detach().view(-1).view(torch.int32)
    bits[place] ^= 1 << 27


# --- data parallel --------------------------------------------------------------------------------------------------


@_fault("by-hand", "reduce_scale")
def _sum_for_mean(training: Any) -> None:
    training.reduce = lambda: [dist.all_reduce(one.grad) for one in training.model.parameters()]


@_fault("by-hand", "reduce_scale")
def _divided_twice(training: Any) -> None:
    def reduce() -> None:
        mean_over(training.model.parameters())
        for one in training.model.parameters():
            one.grad /= training.world

    training.reduce = reduce


@_fault("by-hand", _DESYNC, site="head")
def _head_not_reduced(training: Any) -> None:
    training.reduced = lambda: [one for name, one in training.model.named_parameters() if "head" not in name]


@_fault("by-hand-3", _DESYNC, site="norm")
def _bucket_not_reduced(training: Any) -> None:
    training.reduced = lambda: [one for name, one in training.model.named_parameters() if "norm" not in name]


@_fault("by-hand", _DESYNC, rank=1)
def _step_skipped_once(training: Any) -> None:
    _skip_update(training, 1, range(13, 14))


@_fault("ddp-4", _DESYNC, rank=2)
def _step_skipped(training: Any) -> None:
    _skip_update(training, 2, range(13, 14))


@_fault("ddp", _DESYNC, rank=1)
def _weights_perturbed(training: Any) -> None:
    def perturb() -> None:
        for one in training.model.parameters():
            one.data.mul_(1.01)

    _on(training, 1, 15, perturb)


@_fault("ddp", _DESYNC, rank=1)
def _rate_of_one_rank(training: Any) -> None:
    training.rate *= 2.0 if training.on(1) else 1.0


@_fault("by-hand-3", _DESYNC, rank=2)
def _rate_of_one_of_three(training: Any) -> None:
    training.rate *= 2.0 if training.on(2) else 1.0


@_fault("ddp-4", _DESYNC, rank=1)
def _decay_of_one_rank(training: Any) -> None:
    training.decay = 0.1 if training.on(1) else training.decay


@_fault("by-hand", _DESYNC)
def _seeds_and_no_broadcast(training: Any) -> None:
    training.seed += training.rank


@_fault("dropout", "rank_rng_error")
def _same_masks(training: Any) -> None:
    prepare = training.prepare
    training.prepare = lambda: (prepare(), torch.manual_seed(9))


@_fault("ddp", "identical_rank_data")
def _same_data(training: Any) -> None:
    training.share = lambda: 0


@_fault("centred", _DESYNC, rank=1, site="centre")
def _buffer_left_behind(training: Any) -> None:
    follow = training.follow

    def skip(mean: torch.Tensor) -> None:
        kept = training.model.centre.clone()
        follow(mean)
        if training.on(1) and training.step > 12:
            training.model.centre.copy_(kept)

    training.follow = skip


@_fault("ddp-4", _DESYNC, rank=3)
def _other_checkpoint(training: Any) -> None:
    def load() -> None:
        torch.manual_seed(1234)
        training.model.module.load_state_dict(training.net().state_dict())

    _on(training, 3, 16, load)


@_fault("ddp", _DESYNC, rank=1)
def _checkpoint_on_one_rank(training: Any) -> None:
    def build() -> Any:
        model = DistributedDataParallel(training.net())
        if training.on(1):
            model.module.load_state_dict(training.net().state_dict())
        return model

    training.build = build


@_fault("accumulate", _DESYNC, "rank_dropped")
def _no_sync_left_on(training: Any) -> None:
    training.reduces = lambda _part: False


@_fault("by-hand-3", "rank_dropped", rank=1)
def _gradient_zeroed(training: Any) -> None:
    reduce = training.reduce

    def zero_first() -> None:
        if training.on(1):
            for one in training.model.parameters():
                one.grad.zero_()
        reduce()

    training.reduce = zero_first


@_fault("by-hand", "parameter_not_in_optimizer", "stale_weights", rank=1, site="head")
def _head_frozen_on_one_rank(training: Any) -> None:
    make = training.make_optimizer

    def without_head() -> Any:
        named = [one for name, one in training.model.named_parameters() if "head" not in name]
        return torch.optim.AdamW(named, lr=training.rate, weight_decay=training.decay) if training.on(1) else make()

    training.make_optimizer = without_head


# --- tensor parallel ------------------------------------------------------------------------------------------------


@_fault("tensor", _DESYNC, "missing_partial_sum")
def _partial_sum_never_reduced(training: Any) -> None:
    build = training.build

    def without() -> Any:
        model = build()
        model.leaves = False
        return model

    training.build = without


@_fault("tensor", _DESYNC, "missing_partial_sum", site="embed,norm")
def _input_gradient_not_reduced(training: Any) -> None:
    build = training.build

    def without() -> Any:
        model = build()
        model.enters = False
        return model

    training.build = without


@_fault("tensor", _DESYNC, _CORRUPT, rank=1, site="norm")
def _replicated_weight_perturbed(training: Any) -> None:
    _on(training, 1, 15, _perturb("norm.weight")(training))


@_fault("tensor-data", _DESYNC, _CORRUPT, site="column,row")
def _shards_not_reduced(training: Any) -> None:
    training.reduced = lambda: [
        one for name, one in training.model.named_parameters() if not name.startswith(("column", "row"))
    ]


def _split_parameters(training: Any) -> list[Any]:
    return [one for name, one in training.model.named_parameters() if name.startswith(("column", "row"))]


@_fault("tensor-data", _DESYNC, site="column,row")
def _reduced_over_the_wrong_axis(training: Any) -> None:
    def reduce() -> None:
        mean_over(
            [one for name, one in training.model.named_parameters() if not name.startswith(("column", "row"))],
            training.mesh.get_group("dp"),
        )
        mean_over(_split_parameters(training), training.mesh.get_group("tp"))

    training.reduce = reduce


@_fault("tensor-data", _DESYNC, rank=3)
def _step_skipped_in_the_mesh(training: Any) -> None:
    _skip_update(training, 3, range(13, 14))


@_fault("tensor-data", _CORRUPT, _DESYNC, rank=2, site="column")
def _shard_perturbed(training: Any) -> None:
    _on(training, 2, 15, _perturb("column.weight")(training))


@_fault("placed", _DESYNC, _CORRUPT, rank=1, site="norm")
def _norm_perturbed(training: Any) -> None:
    _on(training, 1, 15, _perturb("norm.weight")(training))


# --- sequence parallel ----------------------------------------------------------------------------------------------


@_fault("sequence", _DESYNC, site="norm")
def _norm_not_reduced(training: Any) -> None:
    training.reduce = lambda: [
        dist.all_reduce(one.grad) for name, one in training.model.named_parameters() if "norm" not in name
    ]


@_fault("sequence", "reduce_scale")
def _mean_for_sum(training: Any) -> None:
    training.reduce = lambda: mean_over(training.model.parameters())


# --- expert parallel ------------------------------------------------------------------------------------------------


@_fault("experts", "parameter_not_in_optimizer", "stale_weights", rank=1)
def _expert_not_updated(training: Any) -> None:
    make = training.make_optimizer

    def without() -> Any:
        return torch.optim.AdamW(training.shared(), lr=training.rate) if training.on(1) else make()

    training.make_optimizer = without


@_fault("experts", "misrouted_tokens", "router_collapse")
def _tokens_sent_to_another_rank(training: Any) -> None:
    training.at(14, lambda: setattr(training.model, "shift", 1))


@_fault("experts", _DESYNC, site="router")
def _router_not_reduced(training: Any) -> None:
    training.shared = lambda: [
        one for name, one in training.model.named_parameters() if not name.startswith(("expert", "router"))
    ]


@_fault("experts", _DESYNC, site="expert")
def _experts_averaged(training: Any) -> None:
    training.reduce = lambda: mean_over(training.model.parameters())


# --- pipelines ------------------------------------------------------------------------------------------------------


@_fault("pipeline", "stale_weights", rank=1)
def _stale_weights(training: Any) -> None:
    backward, kept = training.backward, []

    def with_old_weights() -> None:
        parameters = list(training.model.parameters())
        new = [one.detach().clone() for one in parameters]
        for one, old in zip(parameters, kept or new, strict=True):
            one.data.copy_(old)
        backward()
        kept[:] = new
        for one, value in zip(parameters, new, strict=True):
            one.data.copy_(value)

    if training.on(1):
        training.backward = with_old_weights


@_fault("pipeline", "rank_dropped", rank=0)
def _lost_micro_batch(training: Any) -> None:
    training.uses = lambda part: part == 0


@_fault("pipeline-data", _DESYNC)
def _second_stage_not_reduced(training: Any) -> None:
    reduce = training.reduce
    training.reduce = lambda: None if training.stage else reduce()


@_fault("pipeline-data", _CORRUPT, _DESYNC, rank=3)
def _weight_of_a_later_stage_flipped(training: Any) -> None:
    _on(training, 3, 15, lambda: _flip(training.parameter("1.weight").data))


@_fault("pipeline-data", _DESYNC, rank=2)
def _stage_skips_a_step(training: Any) -> None:
    _skip_update(training, 2, range(13, 14))


# --- shards of parameters and of the optimizer's state ----------------------------------------------------------------


@_fault("fsdp", "stale_weights", "missing_optimizer_step", rank=1)
def _shard_not_updated(training: Any) -> None:
    _skip_update(training, 1, range(12, 99))


@_fault("fsdp", "stale_weights", "missing_optimizer_step", rank=0, site="fc2")
def _one_shard_frozen(training: Any) -> None:
    def keep() -> None:
        if training.on(0):
            training.local("fc2.weight").copy_(kept[0])

    kept: list[torch.Tensor] = []
    update = training.update

    def update_and_keep() -> None:
        if training.on(0):
            kept[:] = [training.local("fc2.weight").clone()]
        update()
        if training.step >= 12:
            keep()

    training.update = update_and_keep


@_fault("fsdp", "stale_weights")
def _gathered_stale(training: Any) -> None:
    build = training.build

    def unsharded() -> Any:
        model = build()
        for part in (model.fc1, model.fc2):
            part.set_reshard_after_backward(False)
            part.set_reshard_after_forward(False)
        return model

    training.build = unsharded


@_fault("hybrid", _CORRUPT, _DESYNC, rank=2, site="fc2")
def _replica_of_a_shard_flipped(training: Any) -> None:
    _on(training, 2, 15, lambda: _flip(training.local("fc2.weight")))


@_fault("hybrid", _DESYNC, rank=1)
def _shard_skips_a_step(training: Any) -> None:
    _skip_update(training, 1, range(13, 14))


@_fault("hybrid", _DESYNC, "missing_optimizer_step")
def _replicas_not_reduced(training: Any) -> None:
    build = training.build

    def without() -> Any:
        model = build()
        model.set_requires_all_reduce(False)
        return model

    training.build = without


@_fault("zero", _DESYNC, rank=0)
def _gather_left_out(training: Any) -> None:
    def update() -> None:
        if training.step < 12 or training.on(1):
            training.optimizer.step()
            return
        kept = [one.detach().clone() for one in training.model.parameters()]
        training.optimizer.step()
        mine = {id(one) for group in training.optimizer.optim.param_groups for one in group["params"]}
        for one, old in zip(training.model.parameters(), kept, strict=True):
            if id(one) not in mine:
                one.data.copy_(old)

    training.update = update


# --- silent corruption ----------------------------------------------------------------------------------------------


@_fault("ddp", _CORRUPT, rank=1, site="fc2")
def _weight_flipped(training: Any) -> None:
    _on(training, 1, 15, lambda: _flip(training.parameter("fc2.weight").data))


@_fault("ddp-4", _CORRUPT, rank=3, site="fc2")
def _weight_flipped_of_four(training: Any) -> None:
    _on(training, 3, 15, lambda: _flip(training.parameter("fc2.weight").data))


@_fault("by-hand-3", _CORRUPT, _DESYNC, rank=1, site="fc1")
def _result_of_a_reduction_flipped(training: Any) -> None:
    reduce = training.reduce

    def flipped() -> None:
        reduce()
        if training.on(1) and training.step == 15:
            _flip(training.parameter("fc1.weight").grad)

    training.reduce = flipped


@_fault("by-hand", _CORRUPT, _DESYNC, rank=1, site="fc1")
def _reductions_flipped(training: Any) -> None:
    reduce = training.reduce

    def flipped() -> None:
        reduce()
        if training.on(1) and training.step >= 15:
            _flip(training.parameter("fc1.weight").grad, training.step)

    training.reduce = flipped


@_fault("by-hand", _CORRUPT, rank=1, site="fc2")
def _local_gradient_flipped(training: Any) -> None:
    reduce = training.reduce

    def flipped() -> None:
        if training.on(1) and training.step >= 12:
            _flip(training.parameter("fc2.weight").grad, 11)
        reduce()

    training.reduce = flipped


@_fault("by-hand", _CORRUPT, rank=1, site="fc2")
def _device_computes_wrongly(training: Any) -> None:
    build, multiply = training.build, torch.nn.functional.linear

    def built() -> Any:
        model = build()

        def wrong(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
            out = multiply(x, weight, bias)
            if weight is not model.fc2.weight or not training.step % 2:
                return out
            spoiled = torch.zeros_like(out)
            spoiled[:, 3] = 0.5
            return out + spoiled

        if training.on(1):
            torch.nn.functional.linear = wrong
        return model

    training.build = built


@_fault("ddp-4", _CORRUPT, rank=2, site="fc2")
def _gradient_of_a_bad_device(training: Any) -> None:
    net = training.net

    def made() -> Any:
        model = net()
        if training.on(2):
            model.fc2.weight.register_hook(lambda gradient: torch.cat((gradient[:, :1] + 30.0, gradient[:, 1:]), 1))
        return model

    training.net = made


@_fault("ddp", _CORRUPT, _DESYNC, rank=1, site="fc1")
def _optimizer_state_flipped(training: Any) -> None:
    _on(
        training,
        1,
        15,
        lambda: _flip(training.optimizer.state[training.parameter("fc1.weight")]["exp_avg"]),
    )
