"""Public names that were renamed answer to their old name for one release, with a warning."""

import importlib

import pytest
from mindscope.armour import array_api, arrays
from mindscope.storage import QueueWriter, open_store

RENAMED = (
    ("armour", "Model", "WrappedModel"),
    ("armour.defences", "Ensemble", "EnsembleAdversarial"),
    ("armour.detectors", "Ensemble", "DetectorEnsemble"),
    ("armour.model", "Model", "WrappedModel"),
    ("armour.privacy", "Ledger", "PrivacyLedger"),
    ("armour.problem", "Opening", "InitialAscent"),
    ("cli.demo", "Wishes", "DemoOptions"),
    ("probe.exchange", "ExportError", "RunExportError"),
    ("probe.replay", "Call", "CallReference"),
    ("storage", "Foresight", "BatchListener"),
    ("storage", "Keeper", "FlightBuffer"),
)


@pytest.mark.parametrize(("package", "old", "new"), RENAMED)
def test_an_old_name_is_found_with_a_warning(package, old, new):
    module = importlib.import_module(f"mindscope.{package}")
    with pytest.warns(DeprecationWarning, match=rf"{old} is now mindscope\.{package}\.{new}"):
        assert getattr(module, old) is getattr(module, new)


@pytest.mark.parametrize("package", sorted({package for package, _, _ in RENAMED}))
def test_a_name_that_never_was_is_an_attribute_error(package):
    module = importlib.import_module(f"mindscope.{package}")
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = module.Nonsense


def test_an_old_method_calls_the_new_one_with_a_warning():
    store = open_store("memory:")
    with pytest.warns(DeprecationWarning, match=r"MemoryStore\.mailbox is now control_channel"):
        assert store.mailbox("run") is store.control_channel("run")


def test_an_old_argument_is_passed_by_its_new_name_with_a_warning():
    with pytest.warns(DeprecationWarning, match="the argument 'held' is now 'pending'"):
        queue = QueueWriter(open_store("memory:").begin_run("old"), held=lambda: None)
    assert queue.close()


@pytest.mark.parametrize(("old", "new"), [("as_float64", "as_float64"), ("drawn", "like_array")])
def test_the_old_module_of_array_functions_finds_them_with_a_warning(old, new):
    with pytest.warns(DeprecationWarning, match=rf"armour\.arrays\.{old} is now mindscope\.armour\.array_api\.{new}"):
        assert getattr(arrays, old) is getattr(array_api, new)
