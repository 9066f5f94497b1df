"""What an evaluation is to do: attacks, alone or as a suite, budgets, samples, and everything that repeats it."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

import numpy as np

from ...storage import Json, nearest
from ..contract.attack import Attack, make_attack
from ..contract.checked_samples import Samples
from ..distances import Norm
from ..errors import InvalidInput, UnknownAttack
from ..model import Asks, WrappedModel
from .expectation import Jury

Suite = Literal["quick", "standard"]

#: `quick` is a smoke test: two attacks on the cross-entropy, and a short one that does not depend on the scale of the
#: logits. `standard` is the parameter-free ensemble with its published step and query counts, each attack on what the
#: ones before it left (Croce and Hein 2020, arXiv:2003.01690, section 5).
SUITES: Final[dict[str, tuple[str, ...]]] = {
    "quick": ("fgsm", "pgd", "apgd-t"),
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
}


#: In place of them for models without gradients. Square is the score-based member of the published ensemble, and
#: HopSkipJump the strongest of our decision-based attacks; L1 and L0 have weaker ones only.
_BY_SCORES: Final[dict[str, tuple[str, ...]]] = {
    "linf": ("square", "hop-skip-jump"),
    "l2": ("square", "hop-skip-jump"),
    "l1": ("square", "salt-and-pepper"),
    "l0": ("salt-and-pepper", "pointwise"),
}
_BY_DECISIONS: Final[dict[str, tuple[str, ...]]] = {
    "linf": ("plain-noise", "hop-skip-jump"),
    "l2": ("hop-skip-jump", "boundary"),
    "l1": ("plain-noise", "salt-and-pepper"),
    "l0": ("salt-and-pepper", "pointwise"),
}
#: About a thousand queries a sample instead of many thousands: our choice for a smoke test. On 16 networks for digits
#: Auto-PGD with 10 steps to 3 classes left at most 1 point more than with 100 steps to 9 classes, and up to 13 points
#: less than PGD, for less than what PGD costs.
_QUICK: Final[dict[str, dict[str, int]]] = {
    "apgd-t": {"steps": 10, "classes": 3},
    "square": {"queries": 1000},
    "hop-skip-jump": {"steps": 8, "queries": 50},
    "boundary": {"steps": 1000},
}


def suite_for(name: str, norm: Norm, answers: Asks) -> list[str | Attack]:
    """Return the suite's attacks for a model that answers so.

    Raises:
        UnknownAttack: There is no such suite; the message lists the known ones.
    """
    if name not in SUITES:
        raise UnknownAttack(f"no suite {name!r}; suites are {', '.join(SUITES)}{nearest(name, SUITES)}")
    chosen = SUITES[name]
    if answers != "gradients":
        chosen = (_BY_SCORES if answers == "logits" else _BY_DECISIONS).get(norm, chosen)
    if name != "quick":
        return list(chosen)
    return [
        type(attack)(norm, **_QUICK.get(attack.name, {})) for attack in (make_attack(each, norm) for each in chosen)
    ]


def cascaded(name: str, attacks: Iterable[str]) -> frozenset[str]:
    """Return which attacks of the suite see only what the ones before them left.

    In the quick suite that is the last one with gradients; all others have numbers of their own.
    """
    return frozenset({"apgd-t"} if name == "quick" else attacks)


@dataclass(frozen=True, slots=True, eq=False)
class AttackPlan:
    """What is to be done, all of it checked.

    Args:
        attacks: By the label of their outcomes.
        cascade: Labels of the attacks that see only what the ones before them left.
        jury: Judges examples of a random model, whose expectation `model` is.
        chance: How far answers to the same inputs differ; None where it was not measured.
    """

    model: WrappedModel
    samples: Samples
    attacks: Mapping[str, Attack]
    norm: Norm
    budgets: tuple[float, ...]
    seed: int
    batch_size: int
    cascade: frozenset[str]
    jobs: int = 1
    jury: Jury | None = None
    chance: float | None = None

    def details(self) -> dict[str, Json]:
        """Return the facts that every measurement was made with."""
        return {"seed": self.seed, "bounds": list(self.model.bounds), "versions": _versions(self.model)}

    def config(self) -> dict[str, Json]:
        """Return everything that repeats the evaluation, for the stored run."""
        return {
            **self.details(),
            "model": self.model.name,
            "norm": self.norm,
            "epsilons": list(self.budgets),
            "batch_size": self.batch_size,
            "is_averaged": self.jury is not None,
            "attacks": {label: attack.options() for label, attack in self.attacks.items()},
        }


def label_attacks(attacks: Sequence[str | Attack], norm: Norm) -> dict[str, Attack]:
    """Return the attacks by the label of their outcomes: the name, with options where names meet."""
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


def _versions(model: WrappedModel) -> dict[str, Json]:
    framework = sys.modules.get("torch") if model.framework == "torch" else None
    found: dict[str, Json] = {"numpy": np.__version__, "python": sys.version.partition(" ")[0]}
    try:
        found["mindscope"] = version("mindscope")
    except PackageNotFoundError:  # from a checkout that is not installed
        found["mindscope"] = "unknown"
    if framework is not None:
        found["torch"] = str(framework.__version__)
    return found
