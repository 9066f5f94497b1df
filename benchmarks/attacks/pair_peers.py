"""The attacks of Foolbox, torchattacks, AutoAttack and ART that do the same work as one of ours, by attack and norm.

Each takes a network and the pair's numbers, and returns a call that gives adversarial examples. ART takes part where
the three faster libraries have no such attack.
"""

import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Takes native images and labels, returns adversarial images.
Peer = Callable[[Any, Any], Any]
NORMS: Final = {"linf": "Linf", "l2": "L2", "l1": "L1", "l0": "L0"}


@dataclass(frozen=True, slots=True)
class Work:
    """What every library is asked for.

    Args:
        steps: Gradient steps, queries or draws, as the attack counts them.
        epsilon: Budget in the norm.
    """

    attack: str
    norm: str
    steps: int
    epsilon: float


def foolbox_peer(module: Any, work: Work) -> Peer | None:
    """Return Foolbox's attack; it judges its examples itself."""
    import foolbox

    found = _foolbox_attack(foolbox.attacks, work, NORMS[work.norm])
    if found is None:
        return None
    logging.getLogger().setLevel(logging.ERROR)  # a failed start is logged for every sample
    wrapped = foolbox.PyTorchModel(module, bounds=(0, 1), device="cpu")
    budget = None if isinstance(found, foolbox.attacks.base.MinimizationAttack) else work.epsilon

    def call(x: Any, y: Any) -> Any:
        goal = foolbox.criteria.TargetedMisclassification((y + 1) % 10) if work.attack == "genetic" else y
        return found(wrapped, x, goal, epsilons=budget)[1]

    return call


def _foolbox_attack(a: Any, work: Work, norm: str) -> Any:
    steps, part = work.steps, {"steps": work.steps, "rel_stepsize": 2.0 / work.steps}
    nearest = "SaltAndPepperNoiseAttack" if work.norm in ("l0", "l1", "l2") else ""
    known: Mapping[str, tuple[str, dict[str, Any]]] = {
        "fgsm": (f"{norm}FastGradientAttack", {}),
        "bim": (f"{norm}BasicIterativeAttack", part),
        "pgd": (f"{norm}PGD", part),
        "fast-fgsm": (f"{norm}PGD", {"steps": 1, "rel_stepsize": 1.25}),
        "r-fgsm": (f"{norm}PGD", {"steps": 1, "rel_stepsize": 0.5}),
        "mi-fgsm": (f"{norm}MomentumIterativeFastGradientMethod", part),
        "deepfool": (f"{norm}DeepFoolAttack", {"steps": steps, "loss": "logits"}),
        "cw": (f"{norm}CarliniWagnerAttack", {"binary_search_steps": 3, "steps": steps, "abort_early": False}),
        "ddn": ("DDNAttack", {"steps": steps}),
        "fmn": (f"{norm}FMNAttack".replace("Linf", "LInf"), {"steps": steps}),
        "ead": ("EADAttack", {"binary_search_steps": 3, "steps": steps, "abort_early": False}),
        "brendel-bethge": (f"{norm}BrendelBethgeAttack".replace("Linf", "Linfinity"), {"steps": steps}),
        "salt-and-pepper": (nearest, {"steps": steps}),
        "pointwise": ("PointwiseAttack", {}),
        "boundary": ("BoundaryAttack", {"steps": steps, "tensorboard": None}),
        "hop-skip-jump": ("HopSkipJumpAttack", {"steps": steps, "constraint": work.norm}),
        "plain-noise": (f"{norm}RepeatedAdditiveUniformNoiseAttack", {"repeats": steps}),
        "spatial": ("SpatialAttack", {"max_translation": 1, "num_translations": 3, "num_rotations": 31}),
        "genetic": ("GenAttack", {"steps": steps, "population": 6}),
    }  # fmt: skip
    name, options = known.get(work.attack, ("", {}))
    return getattr(a, name)(**options) if hasattr(a, name or "_") else None


def torchattacks_peer(module: Any, work: Work) -> Peer | None:
    """Return the attack of torchattacks."""
    import torchattacks as library

    eps, steps = work.epsilon, work.steps
    few = {"eps": eps, "steps": steps, "alpha": 2 * eps / steps}
    of_norm = {"norm": NORMS[work.norm], "eps": eps}
    known: Mapping[tuple[str, str], tuple[str, dict[str, Any]]] = {
        ("fgsm", "linf"): ("FGSM", {"eps": eps}),
        ("bim", "linf"): ("BIM", few),
        ("ll-fgsm", "linf"): ("FGSM", {"eps": eps}),
        ("ll-bim", "linf"): ("BIM", few),
        ("pgd", "linf"): ("PGD", few),
        ("pgd", "l2"): ("PGDL2", few),
        ("fast-fgsm", "linf"): ("FFGSM", {"eps": eps, "alpha": 1.25 * eps}),
        ("r-fgsm", "linf"): ("RFGSM", {"eps": eps, "alpha": 0.5 * eps, "steps": 1}),
        ("mi-fgsm", "linf"): ("MIFGSM", few),
        ("di-fgsm", "linf"): ("DIFGSM", few | {"decay": 1.0}),
        ("deepfool", "l2"): ("DeepFool", {"steps": steps}),
        ("apgd-ce", work.norm): ("APGD", of_norm | {"steps": steps}),
        ("apgd-dlr", work.norm): ("APGD", of_norm | {"steps": steps, "loss": "dlr"}),
        ("apgd-t", work.norm): ("APGDT", of_norm | {"steps": steps}),
        ("fab-t", work.norm): ("FAB", of_norm | {"steps": steps, "multi_targeted": True, "n_classes": 10}),
        ("square", work.norm): ("Square", of_norm | {"n_queries": steps}),
        ("spsa", "linf"): ("SPSA", {"eps": eps, "nb_iter": steps, "nb_sample": 32, "max_batch_size": 32}),
        ("jsma", "l0"): ("JSMA", {"theta": 1.0, "gamma": 0.2}),
        ("ead", "l1"): ("EADL1", {"binary_search_steps": 3, "max_iterations": steps, "abort_early": False}),
    }
    name, options = known.get((work.attack, work.norm), ("", {}))
    if not name or (work.norm == "l1" and work.attack not in ("ead", "fab-t")):
        return None
    made = getattr(library, name)(module, **options)
    if work.attack.startswith("ll-"):
        made.set_mode_targeted_least_likely(quiet=True)
    return _judged(module, made)


def autoattack_peer(module: Any, work: Work) -> Peer | None:
    """Return the part of AutoAttack."""
    from autoattack.autopgd_base import APGDAttack, APGDAttack_targeted
    from autoattack.fab_pt import FABAttack_PT
    from autoattack.square import SquareAttack

    common = {"norm": NORMS[work.norm], "eps": work.epsilon, "device": "cpu"}
    climb = common | {"n_iter": work.steps}
    if work.attack == "apgd-t" and work.norm == "l1":
        climb |= {"use_largereps": True}
    known: Mapping[str, Callable[[], Any]] = {
        "apgd-ce": lambda: APGDAttack(module, loss="ce", use_largereps=work.norm == "l1", **climb),
        "apgd-dlr": lambda: APGDAttack(module, loss="dlr", use_largereps=work.norm == "l1", **climb),
        "apgd-t": lambda: APGDAttack_targeted(module, n_target_classes=9, **climb),
        "fab-t": lambda: FABAttack_PT(module, targeted=True, n_target_classes=9, **climb),
        "square": lambda: SquareAttack(module, n_queries=work.steps, **common),
    }
    if work.attack not in known:
        return None
    made = known[work.attack]()
    return _judged(module, made.perturb)


def art_peer(module: Any, work: Work) -> Peer | None:
    """Return ART's attack where no other library has one."""
    if (work.attack, work.norm) not in _ART:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from art.attacks import evasion
        from art.estimators.classification import PyTorchClassifier
    import numpy as np
    import torch
    from torch import nn

    wrapped = PyTorchClassifier(module, nn.CrossEntropyLoss(), (1, 8, 8), 10, clip_values=(0.0, 1.0))
    name, options = _ART[work.attack, work.norm]
    options = dict(options) | {"batch_size": 512}
    if "targeted" in options:
        options |= {"eps": work.epsilon, "norm": {"linf": np.inf, "l2": 2, "l1": 1}[work.norm]}
    if name in ("ProjectedGradientDescent", "CarliniLInfMethod"):
        options |= {"max_iter": work.steps, "verbose": False}
    if name == "ProjectedGradientDescent":
        options |= {"eps_step": 2 * work.epsilon / work.steps}
    made = getattr(evasion, name)(wrapped, **options)

    def call(x: Any, y: Any) -> Any:
        with torch.no_grad():
            goal = module(x).argmin(dim=1) if "targeted" in options else y
        found = torch.from_numpy(made.generate(x.numpy(), goal.numpy()))
        with torch.no_grad():
            module(found)
        return found

    return call


_TARGETED: Final = {"targeted": True}
_ART: Final[dict[tuple[str, str], tuple[str, dict[str, Any]]]] = {
    **{("ll-fgsm", norm): ("FastGradientMethod", _TARGETED) for norm in ("l2", "l1")},
    **{("ll-bim", norm): ("ProjectedGradientDescent", _TARGETED) for norm in ("l2", "l1")},
    ("cw", "linf"): ("CarliniLInfMethod", {}),
}


def _judged(module: Any, search: Peer) -> Peer:
    """Return the search with the prediction that tells which examples succeed, as the others make it, too."""
    import torch

    def call(x: Any, y: Any) -> Any:
        found = search(x, y)
        with torch.no_grad():
            module(found)
        return found

    return call
