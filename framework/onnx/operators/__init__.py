"""The operators, family by family; importing this fills the table `OPERATORS`."""

from . import (
    control_operators,
    creation_operators,
    elementwise_operators,
    feature_operators,
    image_operators,
    network_operators,
    recurrent_operators,
    reduction_operators,
    shape_operators,
    signal_operators,
    training_operators,
    type_operators,
)

__all__ = [
    "control_operators",
    "creation_operators",
    "elementwise_operators",
    "feature_operators",
    "image_operators",
    "network_operators",
    "recurrent_operators",
    "reduction_operators",
    "shape_operators",
    "signal_operators",
    "training_operators",
    "type_operators",
]
