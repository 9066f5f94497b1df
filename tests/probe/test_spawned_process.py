"""A recipe travels into spawned processes, and harms none that cannot use it."""

import pickle
import subprocess
import sys
from multiprocessing import spawn

from mindscope.spawned_process import ChildRecipe, children_watched

RECIPE = ChildRecipe(None, "/nowhere/runs", "it's")


def in_a_child(*options):
    """What a child of these options says of itself after it has read the recipe."""
    code = (
        "import pickle, sys; found = pickle.load(sys.stdin.buffer); "
        "print(type(found).__name__, 'mindscope' in sys.modules, 'numpy' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, *options, "-c", code], input=pickle.dumps(RECIPE), capture_output=True, check=True
    )
    return told.stdout.decode().split()


def test_a_child_is_armed_and_loads_nothing_more():
    assert in_a_child() == ["ChildRecipe", "True", "False"]


def test_a_child_without_the_package_starts_all_the_same():
    assert in_a_child("-I", "-S") == ["NoneType", "False", "False"]


def test_the_recipe_is_given_inside_of_the_block_only():
    before = spawn.get_preparation_data
    with children_watched(RECIPE):
        assert spawn.get_preparation_data("child")["mindscope"] is RECIPE
    assert spawn.get_preparation_data is before
