"""What each folder exports is exactly what its `__all__` says, and importing one folder stays cheap."""

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

FOLDERS = ("armour", "dashboard", "framework", "insight", "probe", "storage")


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_is_sorted_and_true(folder: str) -> None:
    module = importlib.import_module(f"mindscope.{folder}")
    exported = list(module.__all__)
    assert len(exported) == len(set(exported))
    missing = [name for name in exported if not hasattr(module, name)]
    assert not missing


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_private_leaks(folder: str) -> None:
    module = importlib.import_module(f"mindscope.{folder}")
    public = {
        name for name, value in vars(module).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public <= set(module.__all__), sorted(public - set(module.__all__))


def test_the_root_names_load_on_first_use() -> None:
    import mindscope

    assert {"diagnose", "open_store", "quantity", "watch", "__version__"} <= set(dir(mindscope))
    assert callable(mindscope.watch)
    assert callable(mindscope.open_store)
    assert callable(mindscope.diagnose)
    with pytest.raises(AttributeError, match="it has"):
        _ = mindscope.wacth


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("mindscope", ("numpy", "sqlalchemy", "dash")),
        ("mindscope.framework", ("sqlalchemy", "dash", "torch", "pandas")),
        ("mindscope.storage", ("numba", "dash", "torch", "pandas")),
        ("mindscope.insight", ("numba", "dash", "torch")),
        ("mindscope.probe", ("dash", "torch", "plotly")),
        ("mindscope.cli", ("numpy", "dash", "torch", "sqlalchemy", "numba")),
    ],
)
def test_importing_one_folder_does_not_pay_for_others(module: str, forbidden: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*[name for name in {forbidden!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
