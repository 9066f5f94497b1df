"""Mixed precision: which cells of a network compute in half precision, by level or by list.

    O0      none
    O1      those of the white list, their outputs back in float32
    O2      all but those of the black list, which compute in float32
    O3      all

Weights stay in float32 whatever the level (they are the master copy), and so does what the network returns. float16
needs a loss scale (`amp_scaler`), bfloat16 does not.

Reference:
    Micikevicius et al. 2018, arXiv:1710.03740.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from .dtype import Array, as_dtype, float16, float32
from .nn import basic_layers, convolution_layers, distance_loss_layers, loss_layers, normalization_layers
from .nn.activation_layers import LogSoftmax, Softmax
from .nn.cell import Cell
from .nn.cell_call import CellPrecision
from .optim.loss_scaling import DynamicLossScaler, StaticLossScaler
from .tensor import Tensor

__all__ = [
    "DynamicLossScaler",
    "StaticLossScaler",
    "all_finite",
    "amp_scaler",
    "auto_mixed_precision",
    "custom_mixed_precision",
    "get_amp_black_list",
    "get_amp_white_list",
]


def all_finite(values: Iterable[Tensor | Array | None]) -> bool:
    """Return whether no element of the tensors or arrays is NaN or infinite; None counts as finite."""
    arrays = (value.numpy() if isinstance(value, Tensor) else value for value in values)
    return all(array is None or bool(np.isfinite(array).all()) for array in arrays)


_WHITE: tuple[type[Cell], ...] = (
    basic_layers.Dense,
    convolution_layers.Conv1d,
    convolution_layers.Conv2d,
    convolution_layers.Conv3d,
    convolution_layers.Conv1dTranspose,
    convolution_layers.Conv2dTranspose,
    convolution_layers.Conv3dTranspose,
)
_BLACK: tuple[type[Cell], ...] = (
    normalization_layers.BatchNorm1d,
    normalization_layers.BatchNorm2d,
    normalization_layers.BatchNorm3d,
    normalization_layers.GroupNorm,
    normalization_layers.InstanceNorm1d,
    normalization_layers.InstanceNorm2d,
    normalization_layers.InstanceNorm3d,
    normalization_layers.LayerNorm,
    normalization_layers.RMSNorm,
    Softmax,
    LogSoftmax,
    loss_layers.BCELoss,
    loss_layers.BCEWithLogitsLoss,
    loss_layers.CTCLoss,
    loss_layers.CrossEntropyLoss,
    loss_layers.KLDivLoss,
    loss_layers.MSELoss,
    loss_layers.NLLLoss,
    distance_loss_layers.CosineEmbeddingLoss,
    distance_loss_layers.HingeEmbeddingLoss,
    distance_loss_layers.MarginRankingLoss,
    distance_loss_layers.MultiMarginLoss,
    distance_loss_layers.SoftMarginLoss,
    distance_loss_layers.TripletMarginLoss,
    distance_loss_layers.GaussianNLLLoss,
    distance_loss_layers.HuberLoss,
    distance_loss_layers.L1Loss,
    distance_loss_layers.PoissonNLLLoss,
    distance_loss_layers.SmoothL1Loss,
)


def get_amp_white_list() -> list[type[Cell]]:
    """Return a new list of the cells whose products are worth half precision."""
    return list(_WHITE)


def get_amp_black_list() -> list[type[Cell]]:
    """Return a new list of the cells whose sums and exponentials need float32."""
    return list(_BLACK)


LEVELS = ("O0", "O1", "O2", "O3")


def auto_mixed_precision(network: Cell, amp_level: str = "O0", dtype: npt.DTypeLike = "float16") -> Cell:
    """Return the network, which from now on computes at that level.

    Args:
        network: Changed in place; a level set before is taken back.
        amp_level: One of `O0`, `O1`, `O2`, `O3`.
        dtype: float16 or bfloat16.

    Raises:
        ValueError: There is no such level.
    """
    _check(amp_level)
    network.to_float(None)
    if amp_level == "O1":
        return custom_mixed_precision(network, white_list=get_amp_white_list(), dtype=dtype)
    if amp_level in ("O2", "O3"):
        return custom_mixed_precision(
            network, black_list=get_amp_black_list() if amp_level == "O2" else [], dtype=dtype
        )
    return network


def custom_mixed_precision(
    network: Cell,
    *,
    white_list: Sequence[type[Cell]] | None = None,
    black_list: Sequence[type[Cell]] | None = None,
    dtype: npt.DTypeLike = "float16",
) -> Cell:
    """Return the network, whose cells of the white list, or all but those of the black list, compute in that dtype.

    Raises:
        ValueError: Both lists were given, or none.
    """
    if (white_list is None) == (black_list is None):
        raise ValueError("custom_mixed_precision expects a white_list or a black_list, and not both")
    low = as_dtype(dtype)
    if white_list is not None:
        for _, cell in network.cells_and_names():
            if isinstance(cell, tuple(white_list)):
                cell._precision = CellPrecision(low, float32)
        return network
    wide: set[int] = set()
    for _, cell in network.cells_and_names():
        if isinstance(cell, tuple(black_list or ())) or id(cell) in wide:
            wide.update(id(child) for child in cell.name_cells().values())  # what a wide cell is made of is wide
            cell._precision = CellPrecision(float32, None if id(cell) in wide else low)
        else:
            cell._precision = CellPrecision(low)
    outermost = network._precision
    if outermost is not None:
        network._precision = CellPrecision(outermost.compute, float32)
    return network


def amp_scaler(amp_level: str, dtype: npt.DTypeLike = "float16") -> DynamicLossScaler | None:
    """Return the loss scale that a level needs: a dynamic one in float16, none in bfloat16 or at O0.

    Raises:
        ValueError: There is no such level.
    """
    _check(amp_level)
    return DynamicLossScaler() if amp_level != "O0" and as_dtype(dtype) == float16 else None


def _check(amp_level: str) -> None:
    if amp_level not in LEVELS:
        raise ValueError(f"amp_level expects one of {', '.join(LEVELS)}, got {amp_level!r}")
