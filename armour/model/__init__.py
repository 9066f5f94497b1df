"""Models as attacks see them: logits, gradients and confidences of inputs within bounds, in any framework."""

from .classifier import Model, looks_like_probabilities
from .network import Network
from .normalization import Normalization
from .wrapping import network_of, wrap

__all__ = ["Model", "Network", "Normalization", "looks_like_probabilities", "network_of", "wrap"]
