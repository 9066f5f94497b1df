"""Attacks with options of their own, as a command line names them."""

import pytest
from mindscope.armour import FGSM, PGD, InvalidInput, PlainNoise, Square, UnknownAttack
from mindscope.armour.contract.attack_words import attacks_in


def test_options_follow_their_attack_between_commas():
    words = ["fgsm, pgd:steps=100,restarts=2,square:queries=50", "fgsm"]
    assert attacks_in(words) == [FGSM(), PGD(steps=100, restarts=2), Square(queries=50), FGSM()]


def test_texts_become_what_the_option_holds():
    assert attacks_in(["pgd:step_size=0.1,random_start=true"], "l2") == [
        PGD(norm="l2", step_size=0.1, random_start=True)
    ]
    assert attacks_in(["pgd:step_size=none"]) == [PGD()]
    assert attacks_in(["plain-noise:kind=gaussian"]) == [PlainNoise(kind="gaussian")]


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("pgd:stps=3", UnknownAttack, "no option 'stps'; its options are steps, step_size, .*did you mean 'steps'"),
        ("pdg:steps=3", UnknownAttack, "did you mean 'pgd'"),
        ("pgd:steps=x", InvalidInput, "pgd expects steps to be a whole number, got 'x'"),
        ("pgd:random_start=maybe", InvalidInput, "to be true or false, got 'maybe'"),
        ("pgd:steps", InvalidInput, "steps=value, as in steps=40"),
        ("pgd:steps=0", InvalidInput, "1 step and 1 start or more"),
        ("pgd:norm=l2", InvalidInput, "takes the norm of the budgets"),
        ("plain-noise:kind=pink", InvalidInput, "expects kind to be .*got 'pink'"),
        ("fgsm:steps=1", UnknownAttack, "fgsm has no option 'steps'; it has none"),
    ],
)
def test_what_does_not_fit_is_named(word, error, message):
    with pytest.raises(error, match=message):
        attacks_in([word])
