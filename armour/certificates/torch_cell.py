"""A torch module as a cell of our engine, so that bounds can pass through it; torch.fx reads the graph."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import fx, nn
from torch.nn import functional

from ...framework import Tensor, ops
from ...framework.nn import Cell
from ..errors import InvalidModel

#: A layer of the graph, applied to tensors of the engine.
_Layer = Callable[..., Any]  # Any: shapes and numbers flow through a graph, too

_SUPPORTED: Final = (
    "Linear, Conv, BatchNorm in evaluation mode, ReLU, LeakyReLU, ReLU6, pooling, Flatten, sums and arrangements"
)


class TorchCell(Cell):
    """The graph of a torch module in the engine's primitives and in float64.

    Args:
        module: In evaluation mode, of one input; its weights are copied.

    Raises:
        InvalidModel: The module is in training mode, its graph cannot be read, or parts of it have no bounds; the
            message names all of them.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._nodes = _nodes(module)
        modules = dict(module.named_modules())
        self._layers: dict[fx.Node, _Layer] = {}
        self._constants: dict[fx.Node, Tensor] = {}
        unknown = []
        for node in self._nodes:
            if node.op == "get_attr":
                self._constants[node] = _constant(operator.attrgetter(str(node.target))(module))
            elif node.op.startswith("call_"):
                layer = _layer(node, modules)
                unknown += [layer] if isinstance(layer, str) else []
                self._layers[node] = layer if not isinstance(layer, str) else _no_layer
        if unknown:
            raise InvalidModel(
                f"no bounds are known for {', '.join(unknown)}; certificates by bounds support {_SUPPORTED}; "
                f"else smooth the model"
            )

    def construct(self, x: Tensor) -> Tensor:
        """Return the logits of `x`, `(n, ...)` float64."""
        values: dict[fx.Node, Any] = dict(self._constants)
        for node in self._nodes:
            if node.op == "placeholder":
                values[node] = x
            elif node in self._layers:
                arguments, options = (fx.node.map_arg(part, values.__getitem__) for part in (node.args, node.kwargs))
                values[node] = _apply(node, self._layers[node], arguments, options)
            elif node.op == "output":
                result: Tensor = fx.node.map_arg(node.args[0], values.__getitem__)
        return result


def _nodes(module: nn.Module) -> list[fx.Node]:
    if any(part.training for part in module.modules()):
        raise InvalidModel(
            f"a certificate expects evaluation mode, {type(module).__name__} is in training mode; call eval()"
        )
    try:
        nodes = list(fx.Tracer().trace(module).nodes)
    except Exception as error:  # code of the user, which runs on placeholders for tensors
        raise InvalidModel(
            f"the graph of {type(module).__name__} cannot be read by torch.fx ({error}); certificates by bounds expect "
            f"a forward whose path does not depend on values, else smooth the model"
        ) from error
    inputs = [node for node in nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        names = ", ".join(str(node.target) for node in inputs)
        raise InvalidModel(f"a certificate expects a model of one input, {type(module).__name__} takes {names}")
    return nodes


def _constant(values: torch.Tensor) -> Tensor:
    return Tensor(values.detach().cpu().double().numpy())


def _layer(node: fx.Node, modules: Mapping[str, nn.Module]) -> _Layer | str:
    """Return what computes the node, or the name under which it is refused."""
    if node.op == "call_module":
        inner = modules[str(node.target)]
        make = next((made for kind, made in _MODULES.items() if isinstance(inner, kind)), None)
        found = None if make is None else make(inner)
        return f"{type(inner).__name__} at '{node.target}'" if found is None else found
    if node.op == "call_method":
        return _METHODS.get(str(node.target), f"the method {node.target}()")
    name = getattr(node.target, "__name__", str(node.target))
    return _FUNCTIONS.get(node.target, f"the function {name}")


def _apply(node: fx.Node, layer: _Layer, arguments: Any, options: Any) -> Any:
    try:
        return layer(*arguments, **options)
    except (TypeError, ValueError) as error:  # an option that the layer does not know
        if isinstance(error, InvalidModel):
            raise
        raise InvalidModel(
            f"no bounds are known for '{node}' as the model calls it ({error}); else smooth the model"
        ) from error


def _no_layer(*_: object) -> None:
    """Take the place of a layer that is refused before anything is computed."""


def _linear(module: Any) -> _Layer:  # Any: the modules are told apart by the table
    weight, bias = _constant(module.weight), None if module.bias is None else _constant(module.bias)
    return lambda x: ops.linear(x, weight, bias)


def _convolution(convolve: _Layer) -> Callable[[Any], _Layer | None]:
    def make(module: Any) -> _Layer | None:
        if module.padding_mode != "zeros":
            return None
        weight, bias = _constant(module.weight), None if module.bias is None else _constant(module.bias)
        sides = module.padding
        padding = sides if isinstance(sides, str) else sides[0] if len(sides) == 1 else [(side, side) for side in sides]
        return lambda x: convolve(
            x, weight, bias, stride=module.stride, padding=padding, dilation=module.dilation, groups=module.groups
        )

    return make


def _batch_norm(module: Any) -> _Layer | None:
    if module.running_mean is None:
        return None
    size = torch.rsqrt(module.running_var.double() + module.eps)
    scale = size if module.weight is None else size * module.weight.double()
    shift = -module.running_mean.double() * scale + (0.0 if module.bias is None else module.bias.double())
    factor, offset = (values.detach().cpu().numpy() for values in (scale, shift))

    def normalise(x: Tensor) -> Tensor:
        shape = (-1, *(1 for _ in range(x.ndim - 2)))
        return x * Tensor(factor.reshape(shape)) + Tensor(offset.reshape(shape))

    return normalise


def _max_pool(pool: _Layer) -> Callable[[Any], _Layer | None]:
    return lambda module: (
        None
        if module.return_indices
        else lambda x: pool(x, module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode)
    )


def _avg_pool(pool: _Layer) -> Callable[[Any], _Layer | None]:
    def make(module: Any) -> _Layer | None:
        if getattr(module, "divisor_override", None) is not None:
            return None
        return lambda x: pool(
            x, module.kernel_size, module.stride, module.padding, 1, module.ceil_mode, module.count_include_pad
        )

    return make


def _leaky_relu(x: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return the leaky rectifier as a sum, which bounds know: (1 - slope) relu(x) + slope x."""
    del inplace
    return ops.relu(x) * (1 - negative_slope) + x * negative_slope


def _relu6(x: Tensor, inplace: bool = False) -> Tensor:
    del inplace
    return ops.relu(x) - ops.relu(x - 6.0)


def _relu(x: Tensor, inplace: bool = False) -> Tensor:
    del inplace
    return ops.relu(x)


def _same(x: Tensor, *_: object, **__: object) -> Tensor:
    return x


def _flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    return ops.flatten(x, start_dim, end_dim)


def _reshape(x: Tensor, *shape: Any) -> Tensor:
    return ops.reshape(x, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)


def _permute(x: Tensor, *axes: Any) -> Tensor:
    return ops.transpose(x, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)


def _mean(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return ops.mean(x, dim, keepdim)


def _size(x: Tensor, dim: int | None = None) -> Any:
    return x.shape if dim is None else x.shape[dim]


def _cat(tensors: Any, dim: int = 0) -> Tensor:
    return ops.concat(tensors, dim)


def _adaptive(pool: _Layer) -> _Layer:
    """Return the pooling with sizes of None, which keep the length of their axis."""

    def apply(x: Tensor, output_size: Any) -> Tensor:
        if isinstance(output_size, tuple | list):
            kept = x.shape[-len(output_size) :]
            output_size = tuple(own if size is None else size for size, own in zip(output_size, kept, strict=True))
        pooled: Tensor = pool(x, output_size)
        return pooled

    return apply


def _max_pool2d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:  # fmt: skip
    if return_indices:
        raise InvalidModel("no bounds are known for the indices of max_pool2d; leave return_indices out")
    return ops.max_pool2d(x, kernel_size, stride or None, padding, dilation, ceil_mode)


def _avg_pool2d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    return ops.avg_pool2d(x, kernel_size, stride or None, padding, 1, ceil_mode, count_include_pad)


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    del inplace
    if training and p:
        raise InvalidModel("no bounds are known for dropout in evaluation mode; pass training=self.training")
    return x


_ADAPTIVE: Final = {
    nn.AdaptiveAvgPool1d: _adaptive(ops.adaptive_avg_pool1d),
    nn.AdaptiveAvgPool2d: _adaptive(ops.adaptive_avg_pool2d),
    nn.AdaptiveAvgPool3d: _adaptive(ops.adaptive_avg_pool3d),
}


def _adaptive_layer(pool: _Layer) -> Callable[[Any], _Layer]:
    return lambda module: lambda x: pool(x, module.output_size)


_MODULES: Final[Mapping[type, Callable[[Any], _Layer | None]]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution(ops.conv1d),
    nn.Conv2d: _convolution(ops.conv2d),
    nn.Conv3d: _convolution(ops.conv3d),
    nn.modules.batchnorm._BatchNorm: _batch_norm,
    nn.ReLU: lambda _: _relu,
    nn.LeakyReLU: lambda module: lambda x: _leaky_relu(x, module.negative_slope),
    nn.ReLU6: lambda _: _relu6,
    nn.Flatten: lambda module: lambda x: _flatten(x, module.start_dim, module.end_dim),
    nn.modules.dropout._DropoutNd: lambda _: _same,
    nn.Identity: lambda _: _same,
    nn.MaxPool1d: _max_pool(ops.max_pool1d),
    nn.MaxPool2d: _max_pool(ops.max_pool2d),
    nn.MaxPool3d: _max_pool(ops.max_pool3d),
    nn.AvgPool1d: _avg_pool(ops.avg_pool1d),
    nn.AvgPool2d: _avg_pool(ops.avg_pool2d),
    nn.AvgPool3d: _avg_pool(ops.avg_pool3d),
    **{kind: _adaptive_layer(pool) for kind, pool in _ADAPTIVE.items()},
}

_METHODS: Final[Mapping[str, _Layer]] = {
    "add": operator.add, "contiguous": _same, "div": operator.truediv, "flatten": _flatten, "mean": _mean,
    "mul": operator.mul, "permute": _permute, "relu": _relu, "reshape": _reshape, "size": _size,
    "squeeze": ops.squeeze, "sub": operator.sub, "transpose": ops.swapaxes, "unsqueeze": ops.expand_dims,
    "view": _reshape,
}  # fmt: skip

_FUNCTIONS: Final[Mapping[object, _Layer]] = {
    getattr: getattr, operator.add: operator.add, operator.getitem: operator.getitem, operator.iadd: operator.add,
    operator.floordiv: operator.floordiv, operator.mul: operator.mul, operator.neg: operator.neg,
    operator.sub: operator.sub, operator.truediv: operator.truediv, torch.add: operator.add, torch.cat: _cat,
    torch.div: operator.truediv, torch.flatten: _flatten, torch.matmul: operator.matmul, torch.mean: _mean,
    torch.mul: operator.mul, torch.permute: _permute, torch.relu: _relu, torch.reshape: _reshape,
    torch.squeeze: ops.squeeze, torch.sub: operator.sub, torch.transpose: ops.swapaxes,
    torch.unsqueeze: ops.expand_dims, functional.adaptive_avg_pool1d: _ADAPTIVE[nn.AdaptiveAvgPool1d],
    functional.adaptive_avg_pool2d: _ADAPTIVE[nn.AdaptiveAvgPool2d],
    functional.avg_pool2d: _avg_pool2d, functional.dropout: _dropout,
    functional.leaky_relu: _leaky_relu, functional.linear: ops.linear, functional.max_pool2d: _max_pool2d,
    torch.max_pool2d: _max_pool2d, functional.relu: _relu, functional.relu6: _relu6,
}  # fmt: skip
