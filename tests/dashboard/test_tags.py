"""Tags as one line that can be edited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.pages.runs.run_actions import BadTags, read_tags, spell_tags

KEYS = st.text("abcdefgh_ ", min_size=1, max_size=8).filter(lambda key: key == key.strip())
SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=12) | st.floats(-1e6, 1e6)


@given(st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=3), max_size=4))
def test_tags_come_back_from_their_line(tags):
    assert read_tags(spell_tags(tags)) == tags


def test_what_a_person_types_is_read_as_numbers_where_it_is_one():
    assert read_tags("lr=3e-4, note=first try,layers=4, is_big=true") == {
        "lr": 3e-4,
        "note": "first try",
        "layers": 4,
        "is_big": True,
    }
    assert read_tags("") == {}


@pytest.mark.parametrize("line", ["lr", "=3", "lr=1, 4"])
def test_a_part_without_a_key_is_refused(line):
    with pytest.raises(BadTags, match="must read key=value"):
        read_tags(line)
