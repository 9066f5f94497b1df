"""The engine: tensors, differentiation, cells, optimizers, data; public names in the order one learns them."""

from . import amp, data, device_context, mint, nn, ops, optim, random, runtime, train
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
from .hooks import Handle, register_backward_start_hook
from .mindir import MindIRError, export, load
from .primitive import PRIMITIVES, Primitive
from .random import Key, set_seed
from .runtime import set_deterministic
from .saved import saved_tensors_hooks
from .serialization import CheckpointError, load_checkpoint, load_param_into_net, save_checkpoint
from .symbolic import Dim
from .tape import gradients
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

__all__ = [
    "PRIMITIVES",
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
