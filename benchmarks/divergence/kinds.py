"""The healthy trainings, one for every way to share the work: data, tensor, sequence, experts, pipeline, shards."""

from contextlib import nullcontext
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from .training import BATCH, CLASSES, HIDDEN, WIDTH, Net, Training, mean_over, sum_over


class Ddp(Training):
    """DistributedDataParallel."""

    options: ClassVar[dict[str, Any]] = {}

    def build(self) -> Any:
        """The wrapped network."""
        return DistributedDataParallel(self.net(), **self.options)

    def net(self) -> Any:
        """The network."""
        return Net()


class DdpOfFour(Ddp):
    """The same on four ranks."""

    world = 4


class Dropout(Ddp):
    """With dropout, seeded by rank."""

    def net(self) -> Any:
        """The network."""
        return Net(dropout=0.2)


class _Normed(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


class BatchNorm(Ddp):
    """Batch normalisation whose statistics every rank keeps by itself, as many do."""

    options: ClassVar[dict[str, Any]] = {"broadcast_buffers": False}

    def net(self) -> Any:
        """The network."""
        return _Normed()


class ByHand(Training):
    """Gradients averaged with all_reduce."""

    def reduce(self) -> None:
        """Every gradient becomes the mean."""
        mean_over(self.reduced())

    def reduced(self) -> list[Any]:
        """What is reduced."""
        return list(self.model.parameters())


class ByHandOfThree(ByHand):
    """The same on three ranks."""

    world = 3


class Centred(ByHand):
    """A model with a buffer that follows the mean of the inputs over all ranks."""

    def build(self) -> Any:
        """The network with its buffer."""
        model = Net()
        model.register_buffer("centre", torch.zeros(WIDTH))
        return model

    def batch(self) -> Any:
        """The batch; the buffer follows it."""
        x, y = super().batch()
        self.follow(x.mean(0))
        return x, y

    def follow(self, mean: torch.Tensor) -> None:
        """Move the buffer towards the mean of all ranks."""
        dist.all_reduce(mean)
        self.model.centre.lerp_(mean / self.world, 0.1)


class Accumulate(Ddp):
    """Three micro-batches to a step, reduced with the last."""

    def backward(self) -> None:
        """Three backward passes."""
        for part in range(3):
            x, y = self.batch()
            with nullcontext() if self.reduces(part) else self.model.no_sync():
                (self.loss(self.model(x), y) / 3).backward()

    def reduces(self, part: int) -> bool:
        """Whether this micro-batch ends the accumulation."""
        return part == 2


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(_context: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        _context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        gradient = gradients[0].clone()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(_context: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(_context: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0], None


class SplitNet(nn.Module):
    """A dense pair whose hidden units lie on the ranks of a group, between layers that every rank holds.

    Shape:
        `(batch, 16) -> (batch, 4)`
    """

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.embed, self.norm = nn.Linear(WIDTH, HIDDEN), nn.LayerNorm(HIDDEN)
        self.group, parts, part = group, dist.get_world_size(group), dist.get_rank(group)
        whole = nn.Linear(HIDDEN, 2 * HIDDEN), nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.head = nn.Linear(HIDDEN, CLASSES)
        rows = 2 * HIDDEN // parts
        here = slice(part * rows, (part + 1) * rows)
        self.column, self.row = nn.Linear(HIDDEN, rows), nn.Linear(rows, HIDDEN, bias=False)
        with torch.no_grad():
            self.column.weight.copy_(whole[0].weight[here])
            self.column.bias.copy_(whole[0].bias[here])
            self.row.weight.copy_(whole[1].weight[:, here])
        self.enters, self.leaves = True, True

    def forward(self, x: Any) -> Any:
        """The logits."""
        x = torch.relu(self.norm(self.embed(x)))
        into = _Enter.apply(x, self.group) if self.enters else x
        out = self.row(torch.relu(self.column(into)))
        return self.head(x + (_Leave.apply(out, self.group) if self.leaves else out))


class Tensor(Training):
    """Tensor parallelism by hand: both ranks read the same batch."""

    def share(self) -> int:
        """All ranks read the same."""
        return 0

    def build(self) -> Any:
        """The split network."""
        return SplitNet(dist.group.WORLD)


class TensorData(Tensor):
    """Two by two: tensor parallelism inside, data parallelism outside."""

    world = 4

    def build(self) -> Any:
        """The split network, over the inner axis."""
        self.mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        return SplitNet(self.mesh.get_group("tp"))

    def share(self) -> int:
        """The outer axis reads different data."""
        return self.rank // 2

    def reduce(self) -> None:
        """The mean over the outer axis."""
        mean_over(self.reduced(), self.mesh.get_group("dp"))

    def reduced(self) -> list[Any]:
        """What is reduced."""
        return list(self.model.parameters())


class Placed(Tensor):
    """Tensor parallelism with DTensor's own styles."""

    def build(self) -> Any:
        """The network with placements."""
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        return parallelize_module(Net(), mesh, {"fc2": ColwiseParallel(), "head": RowwiseParallel()})


class _Sequenced(nn.Module):
    """Layers over a slice of the positions of each sample; the logits are of this rank's slice.

    Shape:
        `(batch, 8, 16) -> (batch * 8 / ranks, 4)`
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Any) -> Any:
        """The logits of this rank's positions."""
        count = x.shape[1] // dist.get_world_size()
        here = slice(dist.get_rank() * count, (dist.get_rank() + 1) * count)
        return self.net(x[:, here].reshape(-1, WIDTH))


class Sequence(Tensor):
    """Sequence parallelism: every rank has some positions of the same samples, and the loss is the sum of the parts."""

    def build(self) -> Any:
        """The network."""
        return _Sequenced()

    def batch(self) -> Any:
        """Samples of eight positions; the classes are of this rank's."""
        x = torch.randn(8, 8, WIDTH, generator=self.generator)
        y = (x @ self.teacher).argmax(2)
        here = slice(self.rank * 4, self.rank * 4 + 4)
        return x, y[:, here].reshape(-1)

    def loss(self, logits: Any, y: Any) -> Any:
        """This rank's part of the mean over all positions."""
        return nn.functional.cross_entropy(logits, y) / self.world

    def reduce(self) -> None:
        """The sum over the ranks."""
        sum_over(self.model.parameters())


class Experts(nn.Module):
    """A router that every rank holds, and one expert a rank; tokens travel by all_to_all.

    Shape:
        `(batch, 16) -> (batch, 4)`
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.router = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, dist.get_world_size())
        experts = [nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN)) for _ in range(4)]
        self.head = nn.Linear(HIDDEN, CLASSES)
        self.expert = experts[dist.get_rank()]
        self.shift = 0

    def forward(self, x: Any) -> Any:
        """The logits."""
        x = torch.relu(self.embed(x))
        scores = self.router(x).softmax(1)
        weight, chosen = scores.max(1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount((chosen + self.shift) % dist.get_world_size(), minlength=dist.get_world_size())
        order = order if not self.shift else ((chosen + self.shift) % dist.get_world_size()).argsort(stable=True)
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts)
        given, taken = counts.tolist(), arriving.tolist()
        out = _Exchange.apply(self.expert(_Exchange.apply(x[order], given, taken)), taken, given)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return self.head(x + weight[:, None] * out[back])


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor, given: list[int], taken: list[int]) -> torch.Tensor:
        context.given, context.taken = given, taken
        out = x.new_empty((sum(taken), x.shape[1]))
        dist.all_to_all_single(out, x.contiguous(), taken, given)
        return out

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        out = gradients[0].new_empty((sum(context.given), gradients[0].shape[1]))
        dist.all_to_all_single(out, gradients[0].contiguous(), context.given, context.taken)
        return out, None, None


class ExpertParallel(Training):
    """Experts on different ranks, everything else replicated."""

    def build(self) -> Any:
        """The network."""
        return Experts()

    def reduce(self) -> None:
        """The mean of what all ranks hold; an expert has the gradients of all tokens already."""
        mean_over(self.shared())
        for parameter in self.model.expert.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad / self.world

    def shared(self) -> list[Any]:
        """What every rank holds."""
        return [one for name, one in self.model.named_parameters() if not name.startswith("expert.")]


class Pipeline(Training):
    """Two stages joined by send and recv, two micro-batches to a step."""

    def share(self) -> int:
        """Both stages of a replica belong to one batch."""
        return self.rank // 2

    def build(self) -> Any:
        """The stage of this rank."""
        self.stage, self.other = self.rank % 2, self.rank ^ 1
        first = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))
        second = nn.Sequential(nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
        return second if self.stage else first

    def backward(self) -> None:
        """Two micro-batches, one after the other."""
        for part in range(2):
            x, y = self.batch()
            if self.stage == 0:
                hidden = self.model(x)
                dist.send(hidden.detach(), self.other)
                gradient = torch.empty_like(hidden)
                dist.recv(gradient, self.other)
                if self.uses(part):
                    hidden.backward(gradient)
            else:
                hidden = torch.empty(BATCH, HIDDEN)
                dist.recv(hidden, self.other)
                hidden.requires_grad_()
                (self.loss(self.model(hidden), y) / 2).backward()
                dist.send(hidden.grad, self.other)

    def uses(self, part: int) -> bool:
        """Whether the first stage uses the gradient of this micro-batch."""
        return part >= 0


class PipelineData(Pipeline):
    """Two by two: pipelines of two stages, replicated."""

    world = 4

    def build(self) -> Any:
        """The stage of this rank, and the ranks that hold the same."""
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        self.replicas = groups[self.rank % 2]
        return super().build()

    def reduce(self) -> None:
        """The mean over the replicas of the stage."""
        mean_over(self.model.parameters(), self.replicas)


class Sharded(Training):
    """FSDP2."""

    def build(self) -> Any:
        """The sharded network."""
        model, mesh = Net(), self.make_mesh()
        for part in (model.fc1, model.fc2, model):
            fully_shard(part, mesh=mesh)
        return model

    def make_mesh(self) -> Any:
        """The ranks in a line."""
        return init_device_mesh("cpu", (2,))

    def local(self, name: str) -> torch.Tensor:
        """This rank's part of a parameter."""
        part: torch.Tensor = self.parameter(name).to_local().data
        return part


class Hybrid(Sharded):
    """FSDP2 over a mesh of two by two: replicas of shards."""

    world = 4

    def make_mesh(self) -> Any:
        """Replicas outside, shards inside."""
        return init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))


class Zero(Ddp):
    """The optimizer's state is shared out; every rank steps its parameters and sends them to the others."""

    def make_optimizer(self) -> Any:
        """The sharded AdamW."""
        from torch.distributed.optim import ZeroRedundancyOptimizer  # warns as it is imported

        return ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.AdamW, lr=self.rate)


#: By name; each is a healthy control as it stands.
KINDS: dict[str, type[Training]] = {
    "ddp": Ddp,
    "ddp-4": DdpOfFour,
    "dropout": Dropout,
    "batch-norm": BatchNorm,
    "by-hand": ByHand,
    "by-hand-3": ByHandOfThree,
    "centred": Centred,
    "accumulate": Accumulate,
    "tensor": Tensor,
    "tensor-data": TensorData,
    "placed": Placed,
    "sequence": Sequence,
    "experts": ExpertParallel,
    "pipeline": Pipeline,
    "pipeline-data": PipelineData,
    "fsdp": Sharded,
    "hybrid": Hybrid,
    "zero": Zero,
}
