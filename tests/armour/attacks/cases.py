"""Every attack of the catalogue in every norm, with options that make it cheap enough to be tried often."""

import os

import pytest
from mindscope.armour import ATTACKS

#: Options for the contract suite; attacks that are not named are cheap enough by themselves.
LIGHT = {
    "apgd-ce": {"steps": 12},
    "apgd-dlr": {"steps": 12},
    "apgd-t": {"steps": 12},
    "fab-t": {"steps": 12},
    "square": {"queries": 150},
    "cw": {"steps": 20, "searches": 4, "step_size": 0.1},
    "ddn": {"steps": 40},
    "fmn": {"steps": 40},
    "brendel-bethge": {"steps": 8, "warm_up": 15},
    "ead": {"steps": 30, "step_size": 0.05, "beta": 0.01},
    "l-bfgs": {"steps": 15},
    "boundary": {"steps": 150},
    "genetic": {"generations": 15},
    "hop-skip-jump": {"steps": 4, "queries": 40},
    "nes": {"steps": 8, "pairs": 8, "step_size": 0.3},
    "plain-noise": {"draws": 20},
    "pointwise": {"draws": 5, "orders": 2},
    "pso": {"steps": 10, "particles": 8},
    "salt-and-pepper": {"draws": 40},
    "spatial": {"turns": 5, "shifts": 3},
    "spsa": {"steps": 8, "pairs": 8, "learning_rate": 0.2},
}
#: What single steps and few queries may miss: these need not reach nearly every target within the whole box.
WEAK = {
    *("fgsm", "r-fgsm", "fast-fgsm", "ll-fgsm", "bim", "ll-bim", "pgd", "jsma"),
    *("square", "genetic", "nes", "salt-and-pepper", "spsa"),
}
#: What knows of decisions alone need not reach classes that the network gives to no input, as it does to the targets.
BLIND = {"boundary", "hop-skip-jump", "plain-noise", "pointwise", "spatial"}

CASES = [(name, norm) for name, entry in sorted(ATTACKS.items()) for norm in entry.norms]
#: Through one framework or the other by turns, and through both where everything is to be tried.
THROUGH = [
    (name, norm, framework)
    for number, (name, norm) in enumerate(CASES)
    for turn, framework in enumerate(("engine", "torch"))
    if os.environ.get("MINDSCOPE_TEST_ALL") or number % 2 == turn
]
each_attack = pytest.mark.parametrize(("name", "norm"), CASES, ids=[f"{name}-{norm}" for name, norm in CASES])

#: One in three, and all where everything is to be tried.
SOME = CASES if os.environ.get("MINDSCOPE_TEST_ALL") else CASES[::3]
some_attacks = pytest.mark.parametrize(("name", "norm"), SOME, ids=[f"{name}-{norm}" for name, norm in SOME])
each_attack_and_framework = pytest.mark.parametrize(
    ("name", "norm", "framework"), THROUGH, ids=["-".join(case) for case in THROUGH]
)


def light(name, norm, **options):
    """The attack with cheap options."""
    return ATTACKS[name].make(norm=norm, **{**LIGHT.get(name, {}), **options})
