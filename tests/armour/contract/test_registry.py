import pytest
from mindscope.armour import ATTACKS, PGD, UnknownAttack, make_attack
from mindscope.armour.contract.attack import Entry, attack


def test_an_attack_is_made_by_name_and_norm():
    assert make_attack("pgd", "l2") == PGD(norm="l2")


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(UnknownAttack, match=r"no attack 'pdg'; attacks are .*, pgd, .*; did you mean 'pgd'"):
        make_attack("pdg")


def test_a_norm_that_the_attack_does_not_know_is_named(monkeypatch):
    monkeypatch.setitem(ATTACKS, "flat", Entry("flat", PGD, ("linf",), "arXiv:0000.00000"))
    with pytest.raises(UnknownAttack, match="attack 'flat' knows the norms linf, got 'l2'"):
        make_attack("flat", "l2")


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="attack 'pgd' is registered by PGD already"):
        attack("pgd", norms=("linf",), reference="")(PGD)
