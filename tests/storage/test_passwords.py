"""No message shows the password of a store."""

import pytest
from mindscope.cli.failures import describe
from mindscope.storage import InvalidName, migrate, open_store
from mindscope.storage.errors import without_passwords


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://u:secret@host/x", "postgres://u:***@host/x"),
        ("mysql://u:se@cret@host:1/x", "mysql://u:***@host:1/x"),
        ("a://u:se/cret@host", "a://u:***@host"),
        ("postgresql://u@host/x?sslpassword=secret&a=1", "postgresql://u@host/x?sslpassword=***&a=1"),
        ("runs/", "runs/"),
        ("no run 'a://u:secret@h/x' in 'b://h:5432/x'", "no run 'a://u:***@h/x' in 'b://h:5432/x'"),
    ],
)
def test_a_password_is_hidden_and_all_else_stays(url, shown):
    assert without_passwords(url) == shown


@pytest.mark.parametrize("url", ["postgres://u:secret@host/x", "postgresql+psycopg2://u:secret@host/x"])
def test_another_scheme_is_answered_with_the_one_that_works(url):
    with pytest.raises(InvalidName, match=r"did you mean 'postgresql\+psycopg'\?") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("begin", [open_store, migrate])
@pytest.mark.parametrize("url", ["postgresql+psycopg://u:secret@host:port/x", "postgresql+psycopg://u:secret@h:"])
def test_what_is_no_url_is_refused_without_its_password(begin, url):
    pytest.importorskip("psycopg")
    with pytest.raises(InvalidName, match="is no URL") as caught:
        begin(url)
    assert "secret" not in str(caught.value)


def test_a_command_hides_a_password_wherever_it_was_written():
    assert describe(ValueError("no run 'postgres://u:secret@host/x'"))[1].count("secret") == 0
