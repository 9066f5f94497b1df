"""Text models of torch, whose token ids attacks cannot change a little: their embeddings are attacked instead.

The model is called with its ids, and its embedding layer is made to return what the attack wants, so that positions,
masks and the place of the last token are those of the text. That is why `inputs_embeds` of transformers is not used:
decoders with padding then read their answer at another token.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..array_api import Array, Rows, to_numpy
from ..errors import InvalidInput, InvalidModel
from .classifier import WrappedModel
from .output_field import OutputField
from .outputs import Classes, Returns
from .query_budget import QueryBudget
from .task import Task
from .token_inputs import MASK, TokenFeatures, TokenLayout, checked_attacked, parts_of
from .torch_network import TorchNetwork

_USUAL_SIDES: Final = (MASK, "token_type_ids")
_AT_ONCE: Final = 4096  # rows of an embedding table that are looked at together


class TokenNetwork(TorchNetwork):
    """A text model whose inputs are packed samples.

    Args:
        embedding: The layer of the model that turns ids into embeddings.
        layout: Of the samples.
    """

    def __init__(
        self, module: torch.nn.Module, field: OutputField, embedding: torch.nn.Module, layout: TokenLayout
    ) -> None:
        super().__init__(module, field)
        self._embedding, self._layout = embedding, layout
        self._ids_by_name = "input_ids" in inspect.signature(module.forward).parameters

    def _output(self, x: torch.Tensor) -> torch.Tensor:
        ids, replaced = self._layout.part(x, "input_ids"), list[bool]()

        def attacked(_: torch.nn.Module, given: Any, named: Any, output: torch.Tensor) -> torch.Tensor | None:
            seen = given[0] if given else next(iter(named.values()))
            if seen.shape != ids.shape or not torch.equal(seen, ids):  # a decoder that looks up other tokens
                return None
            replaced.append(True)
            return self._layout.embeddings(x).to(output.dtype)

        handle = self._embedding.register_forward_hook(attacked, with_kwargs=True)
        try:
            sides = self._layout.given(x)
            found = self._module(input_ids=ids, **sides) if self._ids_by_name else self._module(ids, **sides)
        finally:
            handle.remove()
        if not replaced:
            raise InvalidModel(
                f"{type(self._module).__name__} does not look up its token ids in the embedding layer "
                f"{type(self._embedding).__name__}; name the one it uses: wrap_tokens(model, embedding='encoder.words')"
            )
        return self._checked(self._field.of(found, len(x)))


class TokenModel(WrappedModel):
    """A model of token ids, attacked at their embeddings; made by `wrap_tokens`.

    Attacks and `evaluate` take for `x` what a tokenizer returned, or what `embed` makes of it. Adversarial inputs are
    packed samples: `nearest_ids` reads them.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        embedding: torch.nn.Module,
        layout: TokenLayout,
        *,
        output: str | int | None,
        returns: Returns | None,
        classes: Classes | None,
        queries: QueryBudget | None,
        task: Task | None,
    ) -> None:
        super().__init__(
            TokenNetwork(module, OutputField(output), embedding, layout),
            layout.bounds,
            name=type(module).__name__,
            returns=returns,
            classes=classes,
            queries=queries,
            features=TokenFeatures(layout=layout),
            task=task,
        )
        self._embedding, self.layout = embedding, layout

    def arranged(self, x: object) -> Array:
        """Return packed samples: those given, or those of tokens."""
        is_packed = not isinstance(x, Mapping | Sequence) and len(getattr(x, "shape", ())) == 3
        return x if is_packed else self.embed(x)

    def embed(self, tokens: object, *, attacked: ArrayLike | None = None) -> NDArray[np.floating]:
        """Return the packed samples of texts.

        Args:
            tokens: What a tokenizer returned for texts of one padded length: a mapping with `input_ids (n, tokens)` and
                others of the same shape, or the ids alone.
            attacked: `(n, tokens)` bool, the tokens that attacks may change; None for all that the mask lets through.

        Returns:
            `(n, tokens, columns)`, of which the first are the embeddings.

        Raises:
            InvalidInput: The tokens do not fit the model.
        """
        parts = parts_of(tokens, self.layout)
        free = checked_attacked(attacked, parts)
        embeddings = _looked_up(self._embedding, parts["input_ids"])
        return self.layout.packed(embeddings, parts, free)

    def nearest_ids(self, x: Array) -> Rows:
        """Return `(n, tokens)` ids of the embeddings that are nearest, in L2, to those of packed samples.

        With them one sees how far a perturbation of embeddings is from a text: most often they are the clean ids.
        """
        points = torch.as_tensor(to_numpy(self.layout.embeddings(x)), device="cpu")
        flat = points.reshape(-1, self.layout.dimensions)
        nearest, found = (
            torch.full((len(flat),), torch.inf, dtype=flat.dtype, device="cpu"),
            torch.zeros(len(flat), dtype=torch.int64, device="cpu"),
        )
        for start in range(0, self.layout.vocabulary, _AT_ONCE):
            ids = np.arange(start, min(start + _AT_ONCE, self.layout.vocabulary))
            table = torch.as_tensor(_looked_up(self._embedding, ids), device="cpu").to(flat.dtype)
            distance, position = torch.cdist(flat, table, compute_mode="donot_use_mm_for_euclid_dist").min(dim=1)
            found = torch.where(distance < nearest, position + start, found)
            nearest = torch.minimum(nearest, distance)
        return np.asarray(found.reshape(points.shape[:2]).numpy(), np.int64)


def embedding_of(module: torch.nn.Module, name: str | None) -> torch.nn.Module:
    """Return the layer that turns token ids into embeddings.

    Args:
        name: Its dotted name; None asks `get_input_embeddings`, which models of transformers have, or takes the only
            embedding that there is.

    Raises:
        InvalidModel: There is none of that name, or not exactly one.
    """
    if name is not None:
        modules = dict(module.named_modules())
        if name not in modules:
            raise InvalidModel(f"{type(module).__name__} has no layer {name!r}; it has {', '.join(list(modules)[1:9])}")
        return modules[name]
    named = [name for name, inner in module.named_modules() if isinstance(inner, torch.nn.Embedding)]
    asked = getattr(module, "get_input_embeddings", None)
    found = asked() if callable(asked) else module.get_submodule(named[0]) if len(named) == 1 else None
    if not isinstance(found, torch.nn.Module) or not hasattr(found, "weight"):
        raise InvalidModel(
            f"{type(module).__name__} has {len(named)} embeddings ({', '.join(named[:8])}), and wrap_tokens expects "
            "one, or a method get_input_embeddings; name the layer that turns ids into embeddings: embedding='words'"
        )
    return found


def layout_of(
    module: torch.nn.Module,
    embedding: torch.nn.Module,
    sides: Sequence[str] | None,
    bounds: tuple[float, float] | None,
) -> TokenLayout:
    """Return the layout of a model's samples; None takes the usual sides that it has, and the table's own bounds.

    Raises:
        InvalidInput: The model does not take a side.
    """
    takes = inspect.signature(module.forward).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values())
    chosen = tuple(name for name in _USUAL_SIDES if name in takes) if sides is None else tuple(sides)
    if not takes_any and (unknown := [name for name in chosen if name not in takes]):
        raise InvalidInput(f"sides expects inputs of {type(module).__name__}, {', '.join(takes)}; got {unknown[0]!r}")
    rows, dimensions = (int(size) for size in embedding.weight.shape)
    if bounds is None:
        blocks = [np.arange(start, min(start + _AT_ONCE, rows)) for start in range(0, rows, _AT_ONCE)]
        tables = [_looked_up(embedding, ids) for ids in blocks]
        bounds = float(min(table.min() for table in tables)), float(max(table.max() for table in tables))
    return TokenLayout(dimensions, rows, chosen, bounds)


def _looked_up(embedding: torch.nn.Module, ids: Rows) -> NDArray[np.floating]:
    """Return the layer's embeddings of ids, scaled where it scales them, in float32 or float64."""
    weight: Any = embedding.weight
    with torch.no_grad():
        found = embedding(torch.as_tensor(ids, device=weight.device))
    return to_numpy(found if found.dtype == torch.float64 else found.float())
