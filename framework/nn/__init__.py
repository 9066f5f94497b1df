"""Layers: cells with parameters, and the optimizers under the names that MindSpore gives them here."""

from ..optim import SGD, Adam, AdamW, AdamWeightDecay, Momentum
from .activation import GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh
from .attention import MultiHeadSelfAttention
from .cell import Cell
from .container import CellList, SequentialCell
from .conv import Conv2d
from .dropout import Dropout
from .embedding import Embedding
from .fan import HeNormal, HeUniform, Orthogonal, XavierNormal, XavierUniform
from .flatten import Flatten
from .init import Constant, Initializer, Normal, One, TruncatedNormal, Uniform, Zero
from .linear import Dense
from .loss import BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss
from .norm import BatchNorm2d, LayerNorm, RMSNorm
from .pool import AvgPool2d, GlobalAvgPool2d, MaxPool2d
from .transformer import FeedForward, TransformerBlock

__all__ = [
    "GELU",
    "SGD",
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
    "CrossEntropyLoss",
    "Dense",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Flatten",
    "GlobalAvgPool2d",
    "HeNormal",
    "HeUniform",
    "Initializer",
    "LayerNorm",
    "LeakyReLU",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Momentum",
    "MultiHeadSelfAttention",
    "NLLLoss",
    "Normal",
    "One",
    "Orthogonal",
    "RMSNorm",
    "ReLU",
    "SequentialCell",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "TransformerBlock",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "Zero",
]
