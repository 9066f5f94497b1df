"""The same attacks by four libraries: each call takes images and labels and says which images still get their label.

Every library is asked for the same: adversarial examples and whether they succeed. Ours and Foolbox judge what they
return; for the others one prediction of the examples belongs to the call. Step sizes and steps are equal; options that
only one library has stay at its defaults.
"""

import logging
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .digits import engine_model, torch_model

#: The adversarial examples `(n, 1, 8, 8)` and whether the model still gives `(n,)` labels.
Found = tuple[NDArray[np.float32], NDArray[np.bool_]]
Call = Callable[[NDArray[np.float32], NDArray[np.int64]], Found]

PEERS: Final = {"foolbox": "foolbox", "art": "art", "torchattacks": "torchattacks"}
PACKAGES: Final = {"foolbox": "foolbox", "art": "adversarial-robustness-toolbox", "torchattacks": "torchattacks"}
STEP: Final = 2.5 / 40  # PGD's, in budgets: the paper's rule


def missing() -> dict[str, str]:
    """The libraries that are not installed, and what to do."""
    return {
        name: f"{PACKAGES[name]} is not installed; pip install mindscope[bench]"
        for name, module in PEERS.items()
        if find_spec(module) is None
    }


def contenders(attack: str, model: str, epsilon: float = 0.0) -> dict[str, Call]:
    """The calls of that attack by library, ours through torch and through the engine first.

    Args:
        attack: A key of the tables below.
        epsilon: Budget in Linf; attacks for the nearest example have none.
    """
    made = {"torch": _ours(attack, torch_model(model), epsilon), "engine": _ours(attack, engine_model(model), epsilon)}
    for name, table in (("foolbox", _foolbox), ("art", _art), ("torchattacks", _torchattacks)):
        if find_spec(PEERS[name]) is not None:
            call = table(attack, model, epsilon)
            if call is not None:
                made[name] = call
    return made


def _ours(attack: str, model: object, epsilon: float) -> Call:
    from mindscope import armour

    wrapped = armour.wrap(model)
    if attack == "standard":
        suite = [armour.make_attack(name) for name in armour.evaluation.SUITES["standard"]]

        def ensemble(x: NDArray[np.float32], y: NDArray[np.int64]) -> Found:
            """Each attack on what the ones before it left, as in `evaluate`, without its verdict and its record."""
            found, left = x.copy(), np.arange(len(x))
            for member in suite:
                result = member(wrapped, x[left], y[left], epsilons=[epsilon], batch_size=len(x))
                found[left] = np.asarray(result.adversarials[0])
                left = left[~(result.success[0] | result.already)]
            return found, np.isin(np.arange(len(x)), left)

        return ensemble
    made = {
        "fgsm": lambda: armour.FGSM(),
        "pgd": lambda: armour.PGD(steps=40, step_size=STEP, random_start=True, sharpened=False),
        "deepfool": lambda: armour.DeepFool(norm="l2"),
        "carlini-wagner": lambda: armour.make_attack("cw", "l2"),
        "brendel-bethge": lambda: armour.make_attack("brendel-bethge", "l2"),
    }[attack]()
    budgets = [epsilon] if epsilon else None

    def call(x: NDArray[np.float32], y: NDArray[np.int64]) -> Found:
        found = made(wrapped, x, y, epsilons=budgets, batch_size=len(x))
        return np.asarray(found.adversarials[0]), ~(found.success[0] | found.already)

    return call


def _foolbox(attack: str, model: str, epsilon: float) -> Call | None:
    import foolbox
    import torch

    attacks = foolbox.attacks
    table: Mapping[str, Callable[[], Any]] = {
        "fgsm": lambda: attacks.LinfFastGradientAttack(),
        "pgd": lambda: attacks.LinfPGD(steps=40, rel_stepsize=STEP),
        "deepfool": lambda: attacks.L2DeepFoolAttack(),
        "carlini-wagner": lambda: attacks.L2CarliniWagnerAttack(binary_search_steps=9, steps=200),
        "brendel-bethge": lambda: attacks.L2BrendelBethgeAttack(),
    }
    if attack not in table:
        return None
    made, wrapped = table[attack](), foolbox.PyTorchModel(torch_model(model), bounds=(0, 1), device="cpu")
    logging.getLogger().setLevel(logging.ERROR)  # a failed start is logged for every sample; it is counted here

    def call(x: NDArray[np.float32], y: NDArray[np.int64]) -> Found:
        _, clipped, success = made(wrapped, torch.from_numpy(x), torch.from_numpy(y), epsilons=epsilon or None)
        return clipped.numpy(), ~success.numpy()

    return call


def _art(attack: str, model: str, epsilon: float) -> Call | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from art.attacks import evasion
        from art.estimators.classification import PyTorchClassifier
    from torch import nn

    wrapped = PyTorchClassifier(torch_model(model), nn.CrossEntropyLoss(), (1, 8, 8), 10, clip_values=(0.0, 1.0))
    quiet: dict[str, Any] = {"batch_size": 512, "verbose": False}
    table: Mapping[str, Callable[[], Any]] = {
        "fgsm": lambda: evasion.FastGradientMethod(wrapped, eps=epsilon, batch_size=512),
        "pgd": lambda: evasion.ProjectedGradientDescent(
            wrapped, eps=epsilon, eps_step=STEP * epsilon, max_iter=40, num_random_init=1, **quiet
        ),
        "deepfool": lambda: evasion.DeepFool(wrapped, max_iter=50, epsilon=0.02, **quiet),
        "carlini-wagner": lambda: evasion.CarliniL2Method(wrapped, binary_search_steps=9, max_iter=200, **quiet),
    }
    if attack not in table:
        return None
    made = table[attack]()

    def call(x: NDArray[np.float32], y: NDArray[np.int64]) -> Found:
        found = made.generate(x, y)
        return found, wrapped.predict(found, batch_size=512).argmax(axis=1) == y

    return call


def _torchattacks(attack: str, model: str, epsilon: float) -> Call | None:
    import torch
    import torchattacks as library

    module = torch_model(model)
    table: Mapping[str, Callable[[], Any]] = {
        "fgsm": lambda: library.FGSM(module, eps=epsilon),
        "pgd": lambda: library.PGD(module, eps=epsilon, alpha=STEP * epsilon, steps=40),
        "deepfool": lambda: library.DeepFool(module, steps=50, overshoot=0.02),
        "standard": lambda: _ensemble(library, module, epsilon),
    }
    if attack not in table:  # its C&W has no search of c, one of the nine rounds: not the same attack
        return None
    made = table[attack]()

    def call(x: NDArray[np.float32], y: NDArray[np.int64]) -> Found:
        labels = torch.from_numpy(y)
        found = made(torch.from_numpy(x), labels)
        with torch.no_grad():
            return found.numpy(), (module(found).argmax(dim=1) == labels).numpy()

    return call


def _ensemble(library: Any, module: Any, epsilon: float) -> Any:
    """Its AutoAttack with the published steps; its own defaults take a tenth of them."""
    made = library.AutoAttack(module, norm="Linf", eps=epsilon, n_classes=10, seed=0)
    for part in made._autoattack.attacks:
        if hasattr(part, "steps"):
            part.steps = 100
    return made
