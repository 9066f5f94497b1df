import errno

import pytest
from mindscope.cli.failures import Interrupted, WrongUse, describe
from mindscope.storage import InvalidName, RunNotFound, StoreDamaged, StoreTooNew, StoreUnavailable


class _Usage(Exception):
    """The shape of a complaint of click or typer."""

    exit_code = 2

    def format_message(self) -> str:
        return "No such option: --stroe."


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WrongUse("no"), 2),
        (RunNotFound("no run 'x'"), 2),
        (InvalidName("metric 'x' must read"), 2),
        (_Usage(), 2),
        (FileNotFoundError("no file"), 2),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a" * 5000), 2),
        (StoreUnavailable("no"), 3),
        (StoreTooNew("newer"), 3),
        (StoreDamaged("damaged"), 3),
        (ZeroDivisionError("division by zero"), 70),
        (ValueError("not one of ours"), 70),
        (KeyboardInterrupt(), 130),
        (Interrupted("stopped; it is all there"), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_every_failure_has_its_exit_code(error: BaseException, code: int) -> None:
    assert describe(error)[0] == code


def test_a_failure_is_told_in_one_line() -> None:
    assert describe(StoreUnavailable("cannot be\n  written")) == (3, "mindscope: cannot be written")


def test_a_key_error_of_ours_is_told_without_quotes_around_it() -> None:
    assert describe(RunNotFound("no run 'x'"))[1] == "mindscope: no run 'x'"


def test_a_wrong_option_points_to_the_help() -> None:
    assert describe(_Usage())[1] == "mindscope: No such option: --stroe; see 'mindscope --help'"


def test_a_fault_of_ours_says_so_and_how_to_see_more() -> None:
    assert "ZeroDivisionError" in describe(ZeroDivisionError("division by zero"))[1]
    assert "--debug" in describe(ZeroDivisionError("division by zero"))[1]


def test_an_interruption_keeps_its_own_words() -> None:
    assert describe(Interrupted("stopped; it is all there"))[1] == "mindscope: stopped; it is all there"


def test_names_of_thousands_of_characters_are_cut_and_the_remedy_stays() -> None:
    code, words = describe(WrongUse(f"no run {'a' * 5000!r}; `mindscope runs` lists them"))
    assert code == 2
    assert len(words) < 200
    assert words.endswith("; `mindscope runs` lists them")
    assert len(describe(WrongUse("word " * 5000 + "; do that"))[1]) < 4100
