"""URLs restore what is seen and never break a page."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.address import Address, BadAddress, parse

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@given(
    run=TEXT,
    metric=TEXT,
    site=st.none() | TEXT,
    step=st.none() | st.integers(0, 10**9),
    view=st.sampled_from(["deviation", "raw"]),
    scalar=TEXT,
    scale=st.sampled_from(["linear", "log"]),
)
def test_an_address_comes_back_from_its_own_url(**said):
    address = Address(page="run", **said)
    path, _, query = address.href.partition("?")
    assert parse(path, query) == address


def test_a_long_looking_place_has_a_short_url():
    address = Address("run", "20261121-053312-digits-3f2a", "activation_grad/l2_norm", "decoder.11.attn.q_proj", 123456)
    assert len(address.href) < 300


def test_the_root_site_and_no_site_are_two_things():
    assert parse("/run", "?site=").site == ""
    assert parse("/run", "").site is None


@pytest.mark.parametrize("query", ["?step=abc", "?step=-1", "?step=1.5", "?step=" + "9" * 40, "?view=x", "?scale=x"])
def test_broken_queries_say_what_was_expected(query):
    with pytest.raises(BadAddress, match=r"expected|not known"):
        parse("/run", query)


def test_endless_queries_are_refused():
    with pytest.raises(BadAddress, match="at most 2000"):
        parse("/run", "?run=" + "a" * 3000)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_other_url_can_be_parsed_or_is_bad(path, query):
    with suppress(BadAddress):
        assert parse(path, query).page == path.strip("/")
