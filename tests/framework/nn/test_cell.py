"""Cells: children and parameters by assignment, names, errors that say where."""

import numpy as np
import pytest
from mindscope.framework import Key, Parameter, ShapeError, Tensor
from mindscope.framework.nn import Cell, CellList, Dense, SequentialCell


class Scale(Cell):
    def __init__(self, width=2):
        super().__init__()
        self.gain = Parameter(np.full(width, 2.0, np.float32))

    def construct(self, x):
        return x * self.gain


class Pair(Cell):
    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.rest = CellList(Scale(), Scale(3))

    def construct(self, x):
        return self.rest[1](self.rest[0](self.first(x)))


def test_sites_follow_the_attributes_parents_first():
    pair = Pair()
    assert [site for site, _ in pair.cells_and_names()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert list(pair.parameters_dict()) == ["first.gain", "rest.0.gain", "rest.1.gain"]
    assert [p.name for p in pair.get_parameters()] == list(pair.parameters_dict())
    assert list(pair.name_cells()) == ["first", "rest"]


def test_a_shared_cell_and_a_shared_parameter_are_listed_once_under_the_first_name():
    pair = Pair()
    pair.again = pair.first
    pair.tied = pair.first.gain
    assert [site for site, _ in pair.cells_and_names()].count("again") == 0
    assert list(pair.parameters_dict()) == ["tied", "rest.0.gain", "rest.1.gain"]
    assert len(list(pair.get_parameters())) == 3


def test_an_attribute_set_again_replaces_and_none_removes():
    pair = Pair()
    pair.first = Scale()
    assert len(list(pair.get_parameters())) == 3
    pair.first = None
    assert pair.first is None
    assert list(pair.parameters_dict()) == ["rest.0.gain", "rest.1.gain"]
    pair.first = Parameter(np.ones(1, np.float32))
    assert "first" in pair.parameters_dict()
    del pair.first
    assert "first" not in pair.parameters_dict()
    assert not hasattr(pair, "first")


def test_a_parameter_is_not_overwritten_by_mistake():
    with pytest.raises(TypeError, match=r"'gain' of Scale is a Parameter and cannot become ndarray; use set_data\(\)"):
        Scale().gain = np.ones(2)


def test_children_before_the_start_of_the_cell_are_refused():
    class Forgetful(Cell):
        def __init__(self):
            self.child = Scale()

    with pytest.raises(AttributeError, match=r"Forgetful got 'child' before its own start; call super"):
        Forgetful()


@pytest.mark.parametrize("name", ["a.b", ""])
def test_a_name_with_a_dot_is_refused(name):
    with pytest.raises(ValueError, match="dots separate names in a site"):
        Cell().insert_child_to_cell(name, Scale())


def test_a_cell_without_construct_says_so():
    with pytest.raises(NotImplementedError, match=r"Cell has no construct\(\)"):
        Cell()(1)


@pytest.mark.parametrize("outer", [False, True])
def test_an_error_inside_names_the_innermost_cell_by_its_site(outer):
    cell = SequentialCell(Pair()) if outer else Pair()
    with pytest.raises(ShapeError, match=f"in cell '{'0.' if outer else ''}rest.1': 'multiply' cannot take"):
        cell(Tensor(np.ones(2, np.float32)))


def test_a_failing_cell_on_its_own_is_named_by_its_class():
    with pytest.raises(ShapeError, match="in cell 'Scale': "):
        Scale()(Tensor(np.ones(3, np.float32)))


def test_other_exceptions_pass_through_untouched():
    class Broken(Cell):
        def construct(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError) as told:
        SequentialCell(Broken())(1)
    assert told.value.args == ("mine",)


def test_frozen_parameters_are_not_trainable():
    pair = Pair()
    pair.first.gain.requires_grad = False
    assert [p.name for p in pair.trainable_params()] == ["rest.0.gain", "rest.1.gain"]
    assert [p.name for p in pair.untrainable_params()] == ["first.gain"]


def test_numbers_overflow_silently_inside_a_cell():
    out = Scale()(Tensor(np.full(2, 3e38, np.float32)))
    assert np.isposinf(out.numpy()).all()


def test_options_reach_construct():
    class WithOption(Cell):
        def construct(self, x, *, factor=1):
            return x * factor

    assert WithOption()(Tensor(2.0), factor=3).item() == 6.0


def test_containers_count_iterate_index_and_append():
    cells = [Dense(2, 2, key=Key(n)) for n in range(3)]
    for container in (SequentialCell(cells), SequentialCell(*cells), CellList(cells), CellList(*cells)):
        assert len(container) == 3
        assert list(container) == cells
        assert container[-1] is cells[2]
        with pytest.raises(IndexError, match="has 3 cells, there is none at 3"):
            container[3]
        container.append(Scale())
        assert list(container.name_cells()) == ["0", "1", "2", "3"]
    with pytest.raises(TypeError, match="CellList expects cells, got int"):
        CellList([1])
