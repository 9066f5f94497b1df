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
from .cell import Cell
from .container import CellList, SequentialCell
from .conv import Conv2d
from .dropout import Dropout
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
from .fan import HeNormal, HeUniform, Orthogonal, XavierNormal, XavierUniform
from .flatten import Flatten
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
from .norm import BatchNorm2d, LayerNorm, RMSNorm
from .pool import AvgPool2d, GlobalAvgPool2d, MaxPool2d
from .transformer import FeedForward, TransformerBlock

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
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm2d",
    "Cell",
    "CellList",
    "Constant",
    "Conv2d",
    "CosineDecayLR",
    "CrossEntropyLoss",
    "Dense",
    "Dropout",
    "Embedding",
    "ExponentialDecayLR",
    "FeedForward",
    "Flatten",
    "GlobalAvgPool2d",
    "HeNormal",
    "HeUniform",
    "Initializer",
    "InverseDecayLR",
    "Lamb",
    "Lars",
    "LayerNorm",
    "LeakyReLU",
    "Lion",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Momentum",
    "MultiHeadSelfAttention",
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
    "SequentialCell",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "TransformerBlock",
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
