"""Layers: cells with parameters, and the optimizers under the names that MindSpore gives them here."""

from importlib import import_module

from ..optim import (
    LARS,
    SGD,
    AdaFactor,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    AdamWeightDecay,
    Lamb,
    Lars,
    Lion,
    Momentum,
    Muon,
    RMSProp,
    RMSprop,
)
from .activation import GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh
from .adaptive_pool import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from .attention import MultiHeadSelfAttention
from .batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .bounded import Hardtanh, HShrink, HSigmoid, HSwish, ReLU6, SoftShrink, Threshold
from .cell import Cell
from .container import CellList, SequentialCell
from .conv import Conv1d, Conv2d, Conv3d
from .conv_transpose import Conv1dTranspose, Conv2dTranspose, Conv3dTranspose
from .dropout import Dropout, Dropout1d, Dropout2d, Dropout3d
from .dynamic_lr import (
    cosine_decay_lr,
    exponential_decay_lr,
    inverse_decay_lr,
    natural_exp_decay_lr,
    piecewise_constant_lr,
    polynomial_decay_lr,
    warmup_lr,
)
from .embedding import Embedding
from .encoder_decoder import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .fan import HeNormal, HeUniform, Orthogonal, XavierNormal, XavierUniform
from .feed_forward import FeedForward, SwiGLU
from .flatten import Flatten
from .gated import GLU, Identity, PReLU, Softmin
from .group_norm import GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .grouped_query import GroupedQueryAttention
from .init import Constant, Initializer, Normal, One, TruncatedNormal, Uniform, Zero
from .learning_rate_schedule import (
    CosineDecayLR,
    ExponentialDecayLR,
    InverseDecayLR,
    NaturalExpDecayLR,
    PolynomialDecayLR,
    WarmUpLR,
)
from .linear import Dense
from .loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    CTCLoss,
    KLDivLoss,
    MSELoss,
    NLLLoss,
)
from .margin_loss import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from .mixture import MixtureOfExperts
from .multihead import MultiheadAttention
from .norm import LayerNorm, RMSNorm
from .pool import AvgPool1d, AvgPool2d, AvgPool3d, GlobalAvgPool2d, MaxPool1d, MaxPool2d, MaxPool3d
from .recurrent import (
    GRU,
    LSTM,
    RNN,
)
from .recurrent_cell import (
    GRUCell,
    LSTMCell,
    RNNCell,
)
from .regression_loss import (
    GaussianNLLLoss,
    HuberLoss,
    L1Loss,
    PoissonNLLLoss,
    SmoothL1Loss,
)
from .rotary import RotaryEmbedding
from .smooth import CELU, ELU, SELU, LogSigmoid, Mish, Softplus, Softsign, Tanhshrink
from .transformer import TransformerBlock

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LARS",
    "LSTM",
    "RNN",
    "SELU",
    "SGD",
    "AdaFactor",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdamWeightDecay",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "CTCLoss",
    "Cell",
    "CellList",
    "Constant",
    "Conv1d",
    "Conv1dTranspose",
    "Conv2d",
    "Conv2dTranspose",
    "Conv3d",
    "Conv3dTranspose",
    "CosineDecayLR",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "Dense",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "ExponentialDecayLR",
    "FeedForward",
    "Flatten",
    "GRUCell",
    "GaussianNLLLoss",
    "GlobalAvgPool2d",
    "GraphCell",
    "GroupNorm",
    "GroupedQueryAttention",
    "HShrink",
    "HSigmoid",
    "HSwish",
    "Hardtanh",
    "HeNormal",
    "HeUniform",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "Initializer",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "InverseDecayLR",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "Lamb",
    "Lars",
    "LayerNorm",
    "LeakyReLU",
    "Lion",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "MixtureOfExperts",
    "Momentum",
    "MultiHeadSelfAttention",
    "MultiMarginLoss",
    "MultiheadAttention",
    "Muon",
    "NLLLoss",
    "NaturalExpDecayLR",
    "Normal",
    "One",
    "Orthogonal",
    "PReLU",
    "PoissonNLLLoss",
    "PolynomialDecayLR",
    "RMSNorm",
    "RMSProp",
    "RMSprop",
    "RNNCell",
    "ReLU",
    "ReLU6",
    "RotaryEmbedding",
    "SequentialCell",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "SoftShrink",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softsign",
    "SwiGLU",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TruncatedNormal",
    "Uniform",
    "WarmUpLR",
    "XavierNormal",
    "XavierUniform",
    "Zero",
    "cosine_decay_lr",
    "exponential_decay_lr",
    "inverse_decay_lr",
    "natural_exp_decay_lr",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "warmup_lr",
]


def __getattr__(name: str) -> object:
    """`GraphCell`, which MindSpore has here: it needs the compiler, which stands above the layers."""
    if name == "GraphCell":
        return import_module("..mindir", __name__).GraphCell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
