"""Layers: cells with parameters, and the optimizers under the names that MindSpore gives them here."""

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
from .attention import MultiHeadSelfAttention
from .batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
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
from .graph_cell import GraphCell
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
from .loss import BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss
from .mixture import MixtureOfExperts
from .multihead import MultiheadAttention
from .norm import LayerNorm, RMSNorm
from .pool import AvgPool1d, AvgPool2d, AvgPool3d, GlobalAvgPool2d, MaxPool1d, MaxPool2d, MaxPool3d
from .rotary import RotaryEmbedding
from .transformer import TransformerBlock

__all__ = [
    "GELU",
    "LARS",
    "SGD",
    "AdaFactor",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdamWeightDecay",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
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
    "GlobalAvgPool2d",
    "GraphCell",
    "GroupNorm",
    "GroupedQueryAttention",
    "HeNormal",
    "HeUniform",
    "Initializer",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "InverseDecayLR",
    "Lamb",
    "Lars",
    "LayerNorm",
    "LeakyReLU",
    "Lion",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MixtureOfExperts",
    "Momentum",
    "MultiHeadSelfAttention",
    "MultiheadAttention",
    "Muon",
    "NLLLoss",
    "NaturalExpDecayLR",
    "Normal",
    "One",
    "Orthogonal",
    "PolynomialDecayLR",
    "RMSNorm",
    "RMSProp",
    "RMSprop",
    "ReLU",
    "RotaryEmbedding",
    "SequentialCell",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "SwiGLU",
    "Tanh",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
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
