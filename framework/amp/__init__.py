"""Mixed precision: levels, lists of cells, loss scales, and whether gradients are finite."""

from ..optim.loss_scale import DynamicLossScaler, StaticLossScaler
from .finite import all_finite
from .levels import amp_scaler, auto_mixed_precision, custom_mixed_precision
from .lists import get_amp_black_list, get_amp_white_list

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
