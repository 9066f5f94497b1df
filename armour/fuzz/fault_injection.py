"""Fault injection: the accuracy that is left when weights or activations break; the model is restored after."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ...framework import Tensor
from ...framework.nn import Cell
from ...storage import Json, Outcome
from ..array_api import Array, Images, to_numpy
from ..errors import InvalidInput
from .neuron_coverage import Watched

Fault = Literal["bit_flip", "zero", "nan", "precision_loss"]
Where = Literal["weights", "activations"]
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """Accuracy under one fault.

    Args:
        site: Parameter or module; empty for all at once.
        elements: How many values were broken.
        accuracy, clean_accuracy: With and without; a sample whose logits are not finite counts as wrong.
    """

    fault: Fault
    where: Where
    site: str
    elements: int
    accuracy: float
    clean_accuracy: float

    @property
    def drop(self) -> float:
        """The accuracy that is lost."""
        return self.clean_accuracy - self.accuracy


def inject(values: Images, fault: Fault, count: int, generator: np.random.Generator) -> Images:
    """Copy a floating array and break `count` random elements; `precision_loss` rounds all of them to 8 bits.

    Raises:
        InvalidInput: An unknown fault, or values that are not float16, float32 or float64.
    """
    if fault not in FAULTS:
        raise InvalidInput(f"fault expects one of {', '.join(FAULTS)}, got {fault!r}")
    if values.dtype not in (np.float16, np.float32, np.float64):
        raise InvalidInput(f"faults are injected into floating values, got {values.dtype}")
    broken = np.array(values, order="C")
    if fault == "precision_loss":
        return _round(broken)
    flat = broken.reshape(-1)
    elements = generator.choice(flat.size, min(count, flat.size), replace=False)
    if fault == "bit_flip":
        bits = flat.view(f"u{flat.itemsize}")
        shifts = generator.integers(0, 8 * flat.itemsize, len(elements)).astype(bits.dtype)
        bits[elements] ^= bits.dtype.type(1) << shifts
    else:
        flat[elements] = 0.0 if fault == "zero" else np.nan
    return broken


def inject_faults(
    watched: Watched,
    x: Images,
    y: ArrayLike,
    *,
    faults: Sequence[Fault] = FAULTS,
    where: Where = "weights",
    count: int = 1,
    one_by_one: bool = True,
    seed: int = 0,
) -> tuple[FaultOutcome, ...]:
    """Measure the accuracy under every fault at every site, or at all sites at once.

    Args:
        watched: The model with the sites whose activations may break; its parameters are restored bit for bit.
        x: `(n, ...)` inputs with classes `y` `(n,)`.
        faults: What may happen.
        where: To `weights` or `activations`.
        count: Broken elements of a site.
        one_by_one: One site at a time; else all of them at once.
        seed: Which elements, and which bits.
    """
    if where not in ("weights", "activations") or count < 1:
        raise InvalidInput(f"where expects weights or activations and count 1 or more, got {where!r} and {count}")
    sites = list(_parameters(watched.raw)) if where == "weights" else list(watched.modules)
    clean = _accuracy(watched, x, y)
    outcomes = []
    for fault in faults:
        for group in [[site] for site in sites] if one_by_one else [sites]:
            generator = np.random.default_rng(seed)
            broken = [0]
            block = _weights(watched.raw, group, fault, count, generator, broken)
            if where == "activations":
                block = _activations(watched, group, fault, count, generator, broken)
            with block:
                accuracy = _accuracy(watched, x, y)
            name = group[0] if one_by_one else ""
            outcomes.append(FaultOutcome(fault, where, name, broken[0], accuracy, clean))
    return tuple(outcomes)


@contextmanager
def _weights(
    raw: object, sites: Sequence[str], fault: Fault, count: int, generator: np.random.Generator, broken: list[int]
) -> Iterator[None]:
    parameters = _parameters(raw)
    original = {site: _values(parameters[site]) for site in sites}
    try:
        for site, values in original.items():
            faulty = inject(values, fault, count, generator)
            broken[0] += _count_changed(faulty, values)
            _write(parameters[site], faulty)
        yield
    finally:
        for site, values in original.items():
            _write(parameters[site], values)


@contextmanager
def _activations(
    watched: Watched, sites: Sequence[str], fault: Fault, count: int, generator: np.random.Generator, broken: list[int]
) -> Iterator[None]:
    def callback(site: str, output: Images) -> Images | None:
        if site not in sites:
            return None
        faulty = inject(output, fault, count * len(output), generator)
        broken[0] += _count_changed(faulty, output)
        return faulty

    with watched.hooks(callback):
        yield


def _accuracy(watched: Watched, x: Images, y: ArrayLike) -> float:
    with np.errstate(all="ignore"):
        logits = to_numpy(watched.model.logits(watched.model.native(x)))
    finite = np.isfinite(logits).all(axis=1)
    return float(np.mean(finite & (np.where(np.isfinite(logits), logits, 0).argmax(axis=1) == np.asarray(y))))


def _parameters(raw: object) -> dict[str, Array]:
    if isinstance(raw, Cell):
        return dict(raw.parameters_and_names())
    assert hasattr(raw, "named_parameters"), "`Watched` takes a Cell or a torch Module"
    return dict(raw.named_parameters())


def _values(parameter: Array) -> Images:
    return np.array(parameter.numpy() if isinstance(parameter, Tensor) else parameter.detach().cpu().numpy())


def _write(parameter: Array, values: Images) -> None:
    if isinstance(parameter, Tensor):
        parameter.copy_(Tensor(values))
    else:
        parameter.data.copy_(parameter.data.new_tensor(values))


def _count_changed(a: Images, b: Images) -> int:
    kind = f"u{a.itemsize}"
    return int(np.sum(np.ascontiguousarray(a).view(kind) != np.ascontiguousarray(b).view(kind)))


def _round(values: Images) -> Images:
    """Round values to 8 significant bits, as bfloat16 has."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 256) / 256, exponent), values.dtype)


def fault_outcome(found: FaultOutcome, samples: int) -> Outcome:
    """Return the outcome of one fault: the norm's field holds the site, epsilon the number of broken elements."""
    details: dict[str, Json] = {
        "kind": "fault",
        "fault": found.fault,
        "where": found.where,
        "site": found.site,
        "elements": found.elements,
        "clean_accuracy": found.clean_accuracy,
        "drop": found.drop,
    }
    name = f"fault {found.fault} {found.where}"
    return Outcome(name, found.site, float(found.elements), found.accuracy, samples, details=details)
