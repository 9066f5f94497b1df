"""Natural transforms of images in five severities."""

from . import geometry, pixels
from .registry import CORRUPTIONS, SEVERITIES, Corruption, corrupt

__all__ = ["CORRUPTIONS", "SEVERITIES", "Corruption", "corrupt"]
