"""Rows of a table, by index."""

import numpy as np
from numpy.typing import DTypeLike

from ..errors import DtypeError
from ..ops import gather
from ..random import Key
from ..tensor import Tensor
from .cell import Cell
from .init import Initializer, Normal
from .parameters import keys_for, new_parameter, positive


class Embedding(Cell):
    """`weight[indices]`.

    Args:
        vocab_size: Rows of the table.
        embedding_size: Length of a row.
        embedding_init: First rows; normal with standard deviation 0.02 by default.
        key: What the first rows are drawn with; the context's next key by default.
        dtype: Of the table.

    Shape:
        integers `(...) -> (..., embedding_size)`
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        embedding_init: Initializer | None = None,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, vocab_size=vocab_size, embedding_size=embedding_size)
        self.vocab_size, self.embedding_size = vocab_size, embedding_size
        (of_weight,) = keys_for(key, 1)
        # Radford et al. 2018 draw all weights of GPT so; PyTorch's N(0, 1) makes tied output logits too large.
        self.weight = new_parameter(embedding_init or Normal(0.02), (vocab_size, embedding_size), of_weight, dtype)

    def construct(self, indices: Tensor) -> Tensor:
        """The rows, one for each index."""
        if indices.dtype.kind not in "iu":
            raise DtypeError(
                f"Embedding expects integer indices, got {indices.dtype}; convert them with astype('int64')"
            )
        rows: Tensor = gather(self.weight, indices)
        return rows

    def describe(self) -> str:
        """The size of the table."""
        return f"{self.vocab_size}, {self.embedding_size}"
