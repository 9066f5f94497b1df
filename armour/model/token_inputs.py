"""Token ids and what goes with them in one array of numbers, of which attacks may change the embeddings alone.

A sample is `(tokens, columns)`: the embedding of each token, its id, other inputs such as the attention mask, and
whether an attack may change it. Ids and the like are written as shares of the bounds, so that all lies within them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..array_api import Array, Rows, namespace, to_numpy
from ..errors import InvalidInput
from .features import Features

MASK: Final = "attention_mask"
_LARGEST: Final = 65_534  # of what is no id: positions, types, masks
_ABSENT: Final = _LARGEST + 1  # in every element of what was not given


@dataclass(frozen=True, slots=True)
class TokenLayout:
    """Where the parts of a sample lie.

    Args:
        dimensions: Of an embedding.
        vocabulary: Number of token ids.
        sides: Names of the other inputs.
        bounds: Smallest and largest element.
    """

    dimensions: int
    vocabulary: int
    sides: tuple[str, ...]
    bounds: tuple[float, float]

    @property
    def columns(self) -> int:
        """Number of columns of a sample."""
        return self.dimensions + len(self.sides) + 2

    def packed(
        self, embeddings: NDArray[np.floating], parts: Mapping[str, Rows], free: NDArray[np.bool_]
    ) -> NDArray[np.floating]:
        """Return `(n, tokens, columns)`.

        Args:
            embeddings: `(n, tokens, dimensions)`.
            parts: `(n, tokens)` numbers: `input_ids` and each of the sides.
            free: `(n, tokens)` whether attacks may change the embedding.

        Raises:
            InvalidInput: The precision of the embeddings is too low to tell all ids apart.
        """
        low, high = self.bounds
        columns = [
            low + (high - low) * (np.asarray(parts[name], np.float64) / self._largest(name)) for name in self._names
        ]
        columns.append(np.where(free, high, low))
        found = np.concatenate([embeddings, np.stack(columns, axis=-1).astype(embeddings.dtype)], axis=-1)
        if any((to_numpy(self.part(found, name)) != parts[name]).any() for name in self._names):
            raise InvalidInput(
                f"the bounds {self.bounds} are too far from 0 to hold {self.vocabulary} token ids in "
                f"{embeddings.dtype}; wrap the model with wider ones"
            )
        return found

    def embeddings(self, x: Array) -> Array:
        """Return the `(n, tokens, dimensions)` embeddings of packed samples."""
        return x[..., : self.dimensions]

    def part(self, x: Array, name: str) -> Array:
        """Return the `(n, tokens)` int64 numbers of that name."""
        low, high = self.bounds
        xp = namespace(x)
        share = (xp.astype(x[..., self.dimensions + self._names.index(name)], xp.float64) - low) / (high - low)
        return xp.astype(xp.round(share * self._largest(name)), xp.int64)

    def given(self, x: Array) -> dict[str, Array]:
        """Return the sides that the tokens came with: a model without one may do other than with its usual value."""
        found = {name: self.part(x, name) for name in self.sides}
        return {name: values for name, values in found.items() if int(values.min()) != _ABSENT}

    def free(self, x: Array) -> Array:
        """Return `(n, tokens)` bool, which tokens may change."""
        return x[..., -1] > sum(self.bounds) / 2

    @property
    def _names(self) -> tuple[str, ...]:
        return ("input_ids", *self.sides)

    def _largest(self, name: str) -> int:
        return max(self.vocabulary - 1, 1) if name == "input_ids" else _ABSENT


@dataclass(frozen=True, slots=True)
class TokenFeatures(Features):
    """Rules of packed samples: embeddings of the tokens that may change are free, all else stays."""

    layout: TokenLayout | None = None

    def check(self, x: Array) -> None:
        """Raise `InvalidInput` unless the inputs are packed samples."""
        assert self.layout is not None
        if len(x.shape) != 3 or int(x.shape[-1]) != self.layout.columns:
            raise InvalidInput(
                f"a model of token ids expects these, or what its embed(tokens) returns, (n, tokens, "
                f"{self.layout.columns}); got shape {tuple(x.shape)}"
            )

    def free(self, x: Array) -> Array:
        """Return `(n, tokens, columns)`, 1 where an element may change, else 0."""
        assert self.layout is not None
        xp = namespace(x)
        mask = xp.zeros_like(x)
        mask[..., : self.layout.dimensions] = xp.astype(self.layout.free(x), x.dtype)[..., None]
        return mask


def parts_of(tokens: object, layout: TokenLayout) -> dict[str, Rows]:
    """Return `input_ids` and each of the sides, `(n, tokens)` integers, of what a tokenizer returned.

    Args:
        tokens: A mapping with `input_ids`, or the ids alone. A side that is missing is marked as such.

    Raises:
        InvalidInput: There are no ids, they are not in the vocabulary, shapes differ, or there is an unknown input.
    """
    given = dict(tokens) if isinstance(tokens, Mapping) else {"input_ids": tokens}
    if unknown := sorted(set(given) - {"input_ids", *layout.sides}):
        raise InvalidInput(
            f"tokens has {', '.join(map(repr, unknown))}, which the model is not given; it takes "
            f"{', '.join(('input_ids', *layout.sides))}; leave it out, or name it: wrap_tokens(model, sides=(...))"
        )
    if "input_ids" not in given:
        raise InvalidInput(f"tokens expects input_ids, got {', '.join(map(repr, given)) or 'nothing'}")
    found = {name: _numbers(values, name) for name, values in given.items()}
    ids = found["input_ids"]
    if ids.size == 0 or ids.min() < 0 or ids.max() >= layout.vocabulary:
        raise InvalidInput(
            f"input_ids expects ids 0 to {layout.vocabulary - 1}, got "
            f"{f'{ids.min()} to {ids.max()}' if ids.size else f'shape {ids.shape}'}"
        )
    for name in set(layout.sides) & set(found):
        if found[name].shape != ids.shape or found[name].min() < 0 or found[name].max() > _LARGEST:
            raise InvalidInput(
                f"{name} expects whole numbers 0 to {_LARGEST} of shape {ids.shape}, as input_ids has, "
                f"got shape {found[name].shape}"
            )
    return {name: np.full(ids.shape, _ABSENT, np.int64) for name in layout.sides} | found


def checked_attacked(attacked: ArrayLike | None, parts: Mapping[str, Rows]) -> NDArray[np.bool_]:
    """Return `(n, tokens)` which tokens may change: those of the mask, of which `attacked` may leave some out."""
    seen = parts[MASK] != 0 if MASK in parts else np.ones(parts["input_ids"].shape, np.bool_)
    if attacked is None:
        return seen
    chosen = np.asarray(attacked)
    if chosen.dtype != np.bool_ or chosen.shape != seen.shape:
        raise InvalidInput(f"attacked expects bool of shape {seen.shape}, got {chosen.dtype} of shape {chosen.shape}")
    return np.asarray(seen & chosen, np.bool_)


def _numbers(values: object, name: str) -> Rows:
    array = to_numpy(values) if hasattr(values, "detach") else _array(values, name)
    if array.dtype.kind not in "iub" or array.ndim != 2:
        raise InvalidInput(
            f"{name} expects whole numbers (n, tokens), padded to one length, got {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64)


def _array(values: object, name: str) -> NDArray[np.generic]:
    try:
        return np.asarray(values)
    except ValueError as error:
        rows: Sequence[object] = values if isinstance(values, Sequence) else ()
        raise InvalidInput(
            f"{name} expects whole numbers (n, tokens), padded to one length, got {len(rows)} rows of different lengths"
        ) from error
