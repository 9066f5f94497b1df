"""The old names of the classes of nodes, for one release more."""

import pytest
from mindscope.framework import ir


@pytest.mark.parametrize(("old", "new"), [("Constant", ir.ConstantNode), ("Parameter", ir.ParameterNode)])
def test_an_old_name_warns_and_gives_the_class(old: str, new: type) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new.__name__}"):
        assert getattr(ir, old) is new


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Variable'"):
        _ = ir.Variable
