"""The table of models: what each is, and the models without its mask from which an attacker would begin."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import nn

from ..attacks.digits import engine_model
from .masks import (
    Averaged,
    Masked,
    OneOf,
    Remembering,
    Tiring,
    Votes,
    compressed,
    half_detached,
    noisy,
    noisy_by_numpy,
    opposite_slope,
    resized,
    rounded,
    shifted,
    straight_through,
    thermometer,
    wrong_slope,
)
from .networks import stored, trained

Kind = Literal["honest", "rescaled", "masked", "stochastic", "stateful"]


@dataclass(frozen=True, slots=True)
class Case:
    """One model.

    Args:
        make: The model as it would be handed to `evaluate`.
        open: Models whose gradients are not hidden; their examples are tried on this one.
        base: Name of the network below, which settles the labels and the budget.
    """

    name: str
    kind: Kind
    base: str
    make: Callable[[], Any]
    open: Callable[[], tuple[nn.Module, ...]]

    @property
    def epsilon(self) -> float:
        """The budget in Linf at which a part of the samples falls."""
        return 0.15 if self.base == "robust" else 0.08


def network_of(base: str) -> nn.Module:
    """Return the stored or trained network of that name."""
    return stored(base) if base in ("plain", "robust", "mlp") else trained(base)


def _honest(base: str) -> Case:
    return Case(base, "honest", base, lambda: network_of(base), lambda: (network_of(base),))


def _engine(base: str) -> Case:
    return Case(f"{base} of the engine", "honest", base, lambda: engine_model(base), lambda: (stored(base),))


def _outputs(name: str, base: str, change: Callable[[torch.Tensor], torch.Tensor], kind: Kind = "rescaled") -> Case:
    name = f"{name}, {base}"
    return Case(name, kind, base, lambda: Masked(network_of(base), after=change).eval(), lambda: (network_of(base),))


def _inputs(
    name: str,
    base: str,
    change: Callable[[torch.Tensor], torch.Tensor],
    known: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Case:
    """An input that is changed; `known` is the change as an attacker would write it."""

    def begin() -> tuple[nn.Module, ...]:
        plain = network_of(base)
        return (plain,) if known is None else (plain, Masked(plain, before=known))

    return Case(f"{name}, {base}", "masked", base, lambda: Masked(network_of(base), before=change).eval(), begin)


def _random(
    name: str,
    base: str,
    make: Callable[[nn.Module], nn.Module],
    known: Callable[[nn.Module], nn.Module] | None = None,
) -> Case:
    def begin() -> tuple[nn.Module, ...]:
        plain = network_of(base)
        return plain, Averaged((known or make)(plain))

    return Case(f"{name}, {base}", "stochastic", base, lambda: make(network_of(base)).eval(), begin)


def _stateful(name: str, base: str, make: Callable[[nn.Module], nn.Module]) -> Case:
    return Case(f"{name}, {base}", "stateful", base, lambda: make(network_of(base)).eval(), lambda: (network_of(base),))


def _training(base: str) -> nn.Module:
    return Masked(copy.deepcopy(network_of(base))).train()


def _steep() -> nn.Module:
    model = nn.Sequential(*trained("tanh"))
    first = nn.Linear(64, 96)
    first.weight.data, first.bias.data = 60 * model[1].weight.data, 60 * model[1].bias.data
    return nn.Sequential(model[0], first, *model[2:]).eval().requires_grad_(False)


class _NearlyFlat(nn.Module):
    """The network of `_steep` with slopes that float32 can tell from zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (1 + x.abs())


def _steep_opened() -> nn.Module:
    steep = nn.Sequential(*_steep())
    return nn.Sequential(steep[0], steep[1], _NearlyFlat(), *steep[3:])


CASES: Final = (
    *(_honest(base) for base in ("plain", "robust", "mlp", "linear", "smoothed labels", "decayed weights")),
    *(_honest(base) for base in ("two classes", "batch norm", "dropout", "tanh")),
    *(_engine(base) for base in ("robust", "mlp")),
    _outputs("logits x 3", "mlp", lambda z: 3 * z, "honest"),
    _outputs("logarithms of softmax", "mlp", lambda z: z.log_softmax(1), "honest"),
    Case("left in training mode, dropout", "honest", "dropout", lambda: _training("dropout"),
         lambda: (network_of("dropout"),)),
    _outputs("logits x 0.1", "mlp", lambda z: 0.1 * z),
    _outputs("logits x 0.1", "robust", lambda z: 0.1 * z),
    _outputs("logits x 1e-4", "mlp", lambda z: 1e-4 * z),
    _outputs("logits x 1e4", "robust", lambda z: 1e4 * z),
    _outputs("logits + 1e5", "mlp", lambda z: z + 1e5),
    Case("cosine classifier", "rescaled", "cosine", lambda: trained("cosine"), lambda: (trained("cosine"),)),
    _outputs("sigmoid outputs", "mlp", torch.sigmoid),
    _outputs("sigmoid outputs", "robust", torch.sigmoid),
    _outputs("softmax outputs", "mlp", lambda z: z.softmax(1)),
    _outputs("tanh outputs", "mlp", torch.tanh),
    _inputs("rounded", "mlp", rounded, straight_through(rounded)),
    _inputs("rounded, straight through", "mlp", straight_through(rounded), straight_through(rounded)),
    _inputs("thermometer", "mlp", thermometer, straight_through(thermometer)),
    _inputs("compressed", "robust", compressed, straight_through(compressed)),
    _inputs("gradient of other pixels", "mlp", wrong_slope),
    _inputs("opposite gradient", "mlp", opposite_slope),
    _inputs("gradient of every fourth row", "mlp", half_detached),
    Case("saturated tanh", "masked", "tanh", _steep, lambda: (trained("tanh"), _steep_opened())),
    Case("top units alone", "masked", "top units", lambda: trained("top units"),
         lambda: (trained("top units"), trained("tanh"))),
    _random("noise", "mlp", lambda inner: Masked(inner, before=noisy(0.15))),
    _random("noise", "robust", lambda inner: Masked(inner, before=noisy(0.2))),
    _random("noise by NumPy", "mlp", lambda inner: Masked(inner, before=noisy_by_numpy)),
    _random("noise on logits", "mlp", lambda inner: Masked(inner, after=noisy(3.0))),
    _random("shifts by Python", "robust", lambda inner: Masked(inner, before=shifted)),
    _random("random resizing", "robust", lambda inner: Masked(inner, before=resized)),
    _random("votes of smoothing", "mlp", lambda inner: Votes(inner, soft=False), lambda inner: Votes(inner, soft=True)),
    _random("means of smoothing", "mlp", lambda inner: Votes(inner, soft=True)),
    _random("one of two networks", "mlp", lambda inner: OneOf(Masked(inner), Masked(stored("plain")))),
    _random("dropout active", "dropout always", lambda inner: inner),
    _stateful("batch statistics", "batch statistics", lambda inner: inner),
    _stateful("tiring", "mlp", Tiring),
    _stateful("remembering", "mlp", Remembering),
)  # fmt: skip
