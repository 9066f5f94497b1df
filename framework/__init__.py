"""The engine: tensors, differentiation, cells, optimizers, data; public names in the order one learns them.

Tensors, operations and transformations load at once; layers, training, the compiler and files on first use.
"""

import importlib
import typing

from . import ops, random
from .allocator import keep_freed_memory as _keep_freed_memory
from .context import is_recomputing, is_recording, no_grad, quiet, recording
from .dlpack import from_dlpack
from .dtype import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .errors import (
    ChangedTensorError,
    DataDependentShape,
    DtypeError,
    EngineError,
    FreedGraphError,
    GradientError,
    NumericalError,
    ShapeError,
)
from .hooks import Handle
from .primitive import PRIMITIVES, Primitive
from .random import Key, set_seed
from .symbolic import Dim
from .tape import gradients, register_backward_start_hook
from .tape_node import saved_tensors_hooks
from .tensor import Parameter, Tensor
from .transforms import (
    custom_vjp,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    recompute,
    stop_gradient,
    value_and_grad,
    vjp,
)
from .vmap import vmap

if typing.TYPE_CHECKING:
    from . import amp, data, device_context, mint, nn, optim, runtime, train
    from .compiler.jit import jit
    from .compiler.traced import CaptureError
    from .mindir import MindIRError, export, load
    from .runtime import set_deterministic
    from .serialization import CheckpointError, load_checkpoint, load_param_into_net, save_checkpoint

__all__ = [
    "PRIMITIVES",
    "CaptureError",
    "ChangedTensorError",
    "CheckpointError",
    "DataDependentShape",
    "Dim",
    "DtypeError",
    "EngineError",
    "FreedGraphError",
    "GradientError",
    "Handle",
    "Key",
    "MindIRError",
    "NumericalError",
    "Parameter",
    "Primitive",
    "ShapeError",
    "Tensor",
    "amp",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "custom_vjp",
    "data",
    "device_context",
    "export",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "grad",
    "gradients",
    "hessian",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_recomputing",
    "is_recording",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "load",
    "load_checkpoint",
    "load_param_into_net",
    "mint",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "quiet",
    "random",
    "recompute",
    "recording",
    "register_backward_start_hook",
    "runtime",
    "save_checkpoint",
    "saved_tensors_hooks",
    "set_deterministic",
    "set_seed",
    "stop_gradient",
    "train",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
    "vmap",
]

_FOLDERS = ("amp", "data", "device_context", "mint", "nn", "optim", "runtime", "train")
_WHERE = {
    "CaptureError": ".compiler",
    "CheckpointError": ".serialization",
    "MindIRError": ".mindir",
    "export": ".mindir",
    "jit": ".compiler",
    "load": ".mindir",
    "load_checkpoint": ".serialization",
    "load_param_into_net": ".serialization",
    "save_checkpoint": ".serialization",
    "set_deterministic": ".runtime",
}


def __getattr__(name: str) -> object:
    """Return what loads on first use."""
    if name in _FOLDERS:
        return importlib.import_module(f".{name}", __name__)
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; see its __all__")


_keep_freed_memory()
