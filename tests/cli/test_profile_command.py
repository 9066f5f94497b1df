import json


def test_profile_says_what_is_not_recorded(command, run_folder):
    told = command("profile", "digits", "--store", run_folder)
    assert (told.code, told.err) == (0, "")
    assert "no step was timed" in told.out
    assert "parameters" in told.out


def test_profile_as_json_is_one_document(command, run_folder):
    document = json.loads(command("profile", "--store", run_folder, "--json").out)
    assert document["splits"][0]["step_s"] == "NaN"
    assert document["memory"][0]["parts"][0] == {
        "kind": "parameters", "site": "", "size_bytes": 128.0, "is_measured": False
    }  # fmt: skip


def test_profile_writes_a_timeline(command, run_folder, tmp_path):
    told = command("profile", "--store", run_folder, "--trace", tmp_path / "trace.json", "--steps", "2,4")
    assert told.code == 0
    assert "perfetto" in told.err
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_wrong_range_and_a_place_that_cannot_be_written_are_wrong_use(command, run_folder, tmp_path):
    assert command("profile", "--store", run_folder, "--steps", "2").code == 2
    told = command("profile", "--store", run_folder, "--trace", tmp_path / "no" / "trace.json")
    assert (told.code, "name another file" in told.err) == (2, True)
