"""URLs restore what is seen and never break a page."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.dashboard.address import SPAN, BadAddress, PageAddress, QueryKey, parse, span_of
from mindscope.dashboard.pages import PAGES

KEYS = (QueryKey("view", "deviation", ("deviation", "raw")), QueryKey("scalar", "loss"), SPAN)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@given(
    run=TEXT,
    metric=TEXT,
    site=st.none() | TEXT,
    step=st.none() | st.integers(0, 10**9),
    view=st.sampled_from(["", "raw"]),
    scalar=TEXT,
)
def test_an_address_comes_back_from_its_own_url(view, scalar, **said):
    options = {name: word for name, word in (("view", view), ("scalar", scalar)) if word not in ("", "loss")}
    address = PageAddress(page="run", **said, options=options)
    path, _, query = address.href.partition("?")
    assert parse(path, query, KEYS) == address


def test_a_long_looking_place_has_a_short_url():
    address = PageAddress(
        "run", "20261121-053312-digits-3f2a", "activation_grad/l2_norm", "decoder.11.attn.q_proj", 123456
    )
    assert len(address.href) < 300


@pytest.mark.parametrize("page", PAGES.values(), ids=[page.title for page in PAGES.values()])
def test_every_page_with_all_of_its_controls_said_has_a_url_below_300_bytes(page):
    said = {key.name: max(key.words, key=len) if key.words else key.example for key in page.keys}
    place = {"metric": "activation_grad/l2_norm", "site": "model.decoder.11.attn.q_proj", "step": 123456}
    address = PageAddress(page.path, "20261121-053312-digits-3f2a", **place, options=said)
    assert len(address.href.encode()) < 300


def test_the_root_site_and_no_site_are_two_things():
    assert parse("/run", "?site=").site == ""
    assert parse("/run", "").site is None


@pytest.mark.parametrize(
    "query", ["?step=abc", "?step=-1", "?step=1.5", "?step=" + "9" * 40, "?view=x", "?view=", "?steps=1", "?steps=-1-2"]
)
def test_broken_queries_say_what_was_expected(query):
    with pytest.raises(BadAddress, match="expected"):
        parse("/run", query, KEYS)


def test_keys_of_other_pages_are_ignored():
    assert parse("/findings", "?view=x&run=a") == PageAddress("findings", run="a")


@given(first=st.integers(0, 10**17), last=st.integers(0, 10**17))
def test_a_stretch_of_steps_comes_back_from_its_word(first, last):
    assert span_of(f"{first}-{last}") == (min(first, last), max(first, last))


@pytest.mark.parametrize("word", ["", None, "3", "a-b", "-", "1-", "1-²"])
def test_what_is_no_stretch_of_steps_means_all(word):
    assert span_of(word) is None


def test_endless_queries_are_refused():
    with pytest.raises(BadAddress, match="at most 2000"):
        parse("/run", "?run=" + "a" * 3000)


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_other_url_can_be_parsed_or_is_bad(path, query):
    with suppress(BadAddress):
        assert parse(path, query).page == path.strip("/")
