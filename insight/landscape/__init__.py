"""The loss around a model's weights: over two random directions, along the training's own path, between two runs."""

from .plane import PathPoint, Plane, Weights, along_path, filter_normalised, through
from .stored import dumped_weights, stored_surfaces, surfaces_in, write_surface
from .surface import Loss, Surface, between, surface

__all__ = [
    "Loss",
    "PathPoint",
    "Plane",
    "Surface",
    "Weights",
    "along_path",
    "between",
    "dumped_weights",
    "filter_normalised",
    "stored_surfaces",
    "surface",
    "surfaces_in",
    "through",
    "write_surface",
]
