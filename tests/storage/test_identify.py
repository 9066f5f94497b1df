"""How runs are called."""

from mindscope.storage.run_info import check_run_id, new_run_id


def test_runs_that_begin_in_the_same_second_have_ids_of_their_own():
    ids = [new_run_id("sweep", 1_700_000_000.0) for _ in range(2000)]  # with four digits some thirty would be shared
    assert len(set(ids)) == 2000


def test_an_id_is_a_file_name_whatever_the_run_is_called():
    for name in ("", "Größe / 3 ", "a" * 300, "../x", "CON.rank0"):
        assert check_run_id(new_run_id(name, 0.0)).startswith("19700101-000000-")
