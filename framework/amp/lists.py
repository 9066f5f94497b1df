"""Which cells gain from half precision, and which must not have it."""

from ..nn import batch_norm, conv, conv_transpose, group_norm, linear, loss, margin_loss, norm, regression_loss
from ..nn.activation import LogSoftmax, Softmax
from ..nn.cell import Cell

_WHITE: tuple[type[Cell], ...] = (
    linear.Dense,
    conv.Conv1d,
    conv.Conv2d,
    conv.Conv3d,
    conv_transpose.Conv1dTranspose,
    conv_transpose.Conv2dTranspose,
    conv_transpose.Conv3dTranspose,
)
_BLACK: tuple[type[Cell], ...] = (
    batch_norm.BatchNorm1d,
    batch_norm.BatchNorm2d,
    batch_norm.BatchNorm3d,
    group_norm.GroupNorm,
    group_norm.InstanceNorm1d,
    group_norm.InstanceNorm2d,
    group_norm.InstanceNorm3d,
    norm.LayerNorm,
    norm.RMSNorm,
    Softmax,
    LogSoftmax,
    loss.BCELoss,
    loss.BCEWithLogitsLoss,
    loss.CTCLoss,
    loss.CrossEntropyLoss,
    loss.KLDivLoss,
    loss.MSELoss,
    loss.NLLLoss,
    margin_loss.CosineEmbeddingLoss,
    margin_loss.HingeEmbeddingLoss,
    margin_loss.MarginRankingLoss,
    margin_loss.MultiMarginLoss,
    margin_loss.SoftMarginLoss,
    margin_loss.TripletMarginLoss,
    regression_loss.GaussianNLLLoss,
    regression_loss.HuberLoss,
    regression_loss.L1Loss,
    regression_loss.PoissonNLLLoss,
    regression_loss.SmoothL1Loss,
)


def get_amp_white_list() -> list[type[Cell]]:
    """A new list of the cells whose products are worth half precision."""
    return list(_WHITE)


def get_amp_black_list() -> list[type[Cell]]:
    """A new list of the cells whose sums and exponentials need float32."""
    return list(_BLACK)
