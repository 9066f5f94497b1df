"""Public names that were renamed answer to their old name for one release, with a warning."""

import importlib

import pytest

RENAMED = (
    ("defences", "Ensemble", "EnsembleAdversarial"),
    ("detectors", "Ensemble", "DetectorEnsemble"),
    ("model", "Model", "WrappedModel"),
    ("privacy", "Ledger", "PrivacyLedger"),
)


@pytest.mark.parametrize(("package", "old", "new"), RENAMED)
def test_an_old_name_is_found_with_a_warning(package, old, new):
    module = importlib.import_module(f"mindscope.armour.{package}")
    with pytest.warns(DeprecationWarning, match=f"{old} is now mindscope.armour.{package}.{new}"):
        assert getattr(module, old) is getattr(module, new)


def test_a_name_that_never_was_is_an_attribute_error():
    module = importlib.import_module("mindscope.armour.privacy")
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = module.Nonsense
