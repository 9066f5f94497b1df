"""Data for training: sources, shuffling, batches, prefetching, and a place in them that can be saved."""

from .dataset import Dataset, Item
from .loader import Loader, LoaderState
from .sources import ArrayDataset, GeneratorDataset

__all__ = ["ArrayDataset", "Dataset", "GeneratorDataset", "Item", "Loader", "LoaderState"]
