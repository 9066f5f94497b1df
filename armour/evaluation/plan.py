"""What an evaluation is to do: attacks under their labels, budgets, samples, and everything that repeats it."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from ...storage import Json
from ..contract.attack import Attack
from ..contract.registry import make_attack
from ..contract.samples import Samples
from ..distances import Norm
from ..errors import InvalidInput
from ..model import Model


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is to be done, all of it checked."""

    model: Model
    samples: Samples
    attacks: Mapping[str, Attack]
    norm: Norm
    budgets: tuple[float, ...]
    seed: int
    batch_size: int
    cascade: bool
    jobs: int = 1

    def details(self) -> dict[str, Json]:
        """What every measurement was made with."""
        return {"seed": self.seed, "bounds": list(self.model.bounds), "versions": _versions(self.model)}

    def config(self) -> dict[str, Json]:
        """Everything that repeats the evaluation, for the stored run."""
        return {
            **self.details(),
            "model": self.model.name,
            "norm": self.norm,
            "epsilons": list(self.budgets),
            "batch_size": self.batch_size,
            "attacks": {label: attack.options() for label, attack in self.attacks.items()},
        }


def chosen(attacks: Sequence[str | Attack], norm: Norm) -> dict[str, Attack]:
    """The attacks by the label under which their outcomes are kept: the name, and the options where names meet."""
    if isinstance(attacks, str) or not attacks:
        raise InvalidInput(f"attacks expects a sequence of names or attacks, got {attacks!r}")
    made = [make_attack(attack, norm) if isinstance(attack, str) else attack for attack in attacks]
    for attack in made:
        if attack.norm != norm:
            raise InvalidInput(
                f"evaluate expects attacks in one norm, norm={norm!r}, got {attack.name} in {attack.norm!r}"
            )
    names = [attack.name for attack in made]
    labels = [attack.name if names.count(attack.name) == 1 else _with_options(attack) for attack in made]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"attacks expects each attack once, got {', '.join(labels)}")
    return dict(zip(labels, made, strict=True))


def _with_options(attack: Attack) -> str:
    default = make_attack(attack.name, attack.norm).options()
    changed = [f"{key}={value}" for key, value in attack.options().items() if value != default[key]]
    return " ".join([attack.name, *changed])


def _versions(model: Model) -> dict[str, Json]:
    framework = sys.modules.get("torch") if model.framework == "torch" else None
    found: dict[str, Json] = {"numpy": np.__version__, "python": sys.version.partition(" ")[0]}
    try:
        found["mindscope"] = version("mindscope")
    except PackageNotFoundError:  # from a checkout that is not installed
        found["mindscope"] = "unknown"
    if framework is not None:
        found["torch"] = str(framework.__version__)
    return found
