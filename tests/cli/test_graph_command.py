import json


def test_graph_shows_the_tree_of_modules_with_values(command, run_folder):
    told = command("graph", "digits", "--store", run_folder)
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert any("(model)" in line and "Net" in line and "32" in line for line in lines)
    assert any(line.startswith("  body") and "Dense" in line and "dead_units" in line for line in lines)
    assert "weight/l2_norm" in told.out


def test_graph_as_json_at_a_step_with_a_metric_of_ones_choice(command, run_folder):
    told = command("graph", "digits", "--store", run_folder, "--step", 3, "--metric", "weight/max", "--json")
    document = json.loads(told.out)
    assert document["step"] == 3
    body = next(node for node in document["nodes"] if node["site"] == "body")
    assert body["values"] == {"weight/max": 2.0}
    assert body["findings"] == []  # it begins at step 5


def test_a_model_does_not_differ_from_itself(command, run_folder):
    told = command("graph", "digits", "--store", run_folder, "--against", "latest")
    assert told.code == 0
    assert told.out.count("same") == 2
    document = json.loads(command("graph", "--store", run_folder, "--against", "latest", "--json").out)
    assert {node["status"] for node in document["nodes"]} == {"same"}
