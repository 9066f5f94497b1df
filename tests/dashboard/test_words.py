"""Numbers, times and names as people read them."""

import math

import pytest
from mindscope.dashboard.formatting import (
    age,
    count,
    number,
    prose,
    sentence,
    short_location,
    short_site,
    store_location,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (4096.0, "4,096"), (0.123456, "0.1235"), (1e-9, "1e-09"), (math.nan, "NaN"), (-math.inf, "-Inf")],
)
def test_numbers_are_short_and_non_finite_ones_have_names(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(-5, "0 s"), (59, "59 s"), (61, "1 min"), (7200, "2 h"), (9e5, "10 d")])
def test_ages_use_the_largest_fitting_unit(seconds, text):
    assert age(seconds) == text


def test_causes_read_as_sentences():
    assert sentence("non_finite_activation") == "Non-finite activation"
    assert sentence("pos_infs") == "+Inf"
    assert sentence("dead_units") == "Dead units"


def test_telegram_style_becomes_sentences_and_sites_stay():
    assert prose("look at it") == "Look at it."
    assert prose("decoder.2 is dead") == "decoder.2 is dead."
    assert prose("Done.") == "Done."
    assert prose("") == ""


def test_nouns_agree_with_their_number():
    assert [count(1, "finding"), count(2, "finding")] == ["1 finding", "2 findings"]


def test_the_password_of_a_store_is_never_shown():
    shown = store_location("postgresql+psycopg://me:secret@db.example/runs?sslpassword=secret")
    assert shown == "postgresql+psycopg://me@db.example/runs"
    assert store_location("runs/") == "runs/"


def test_a_place_is_called_by_its_last_part():
    assert short_location("/home/me/experiments/runs/") == "runs"
    assert short_location("memory:") == "memory:"


def test_long_sites_keep_their_first_part_and_their_end():
    assert short_site("decoder.layers.11.self_attn.q_proj.weight", 28) == "decoder.…_attn.q_proj.weight"
    assert short_site("decoder.11.attn.q_proj", 10) == "…tn.q_proj"
    assert short_site("head", 10) == "head"
