"""Estimators, sessions and functions are attacked through what they answer; what does not fit is refused at once."""

import io

import numpy as np
import pytest
from mindscope.armour import PGD, HopSkipJump, InvalidInput, InvalidModel, Square, evaluate, make_attack, wrap
from mindscope.storage import MemoryStore

from tests.armour import frameworks
from tests.armour.frameworks import HIDDEN, OUTPUT, inputs

X = inputs(24)
MIDDLE = frameworks.logits(X).mean(axis=0)  # so that each class is some input's


def logits(x):
    """What the predictor scores."""
    return frameworks.logits(np.asarray(x)) - MIDDLE


Y = logits(X).argmax(axis=1)
FLAT = X.reshape(len(X), -1)
HOP = HopSkipJump("linf", steps=2, queries=20)


def probabilities(x):
    odds = np.exp(logits(x))
    return odds / odds.sum(axis=1, keepdims=True)


FUNCTIONS = {
    "logits": (logits, {}, "logits"),
    "probabilities": (probabilities, {}, "logits"),
    "labels": (lambda x: logits(x).argmax(axis=1), {"classes": 3}, "decisions"),
    "named labels": (lambda x: np.array(list("abc"))[logits(x).argmax(axis=1)], {"classes": list("abc")}, "decisions"),
    "one-hot": (lambda x: np.eye(3, dtype=int)[logits(x).argmax(axis=1)], {}, "decisions"),
    "list": (lambda x: logits(x).tolist(), {}, "logits"),
    "dict": (lambda x: {"scores": logits(x), "label": logits(x).argmax(axis=1)}, {}, "logits"),
}


@pytest.mark.parametrize("case", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_is_attacked_through_what_it_answers(case):
    function, options, answers = case
    labels = np.asarray(list("abc"))[Y] if options.get("classes") == list("abc") else Y
    model = wrap(function, **options)
    evaluation = evaluate(model, X, labels, [0.15], attacks=[HOP])
    assert evaluation.clean_accuracy == 1.0
    assert model.answers == evaluation.answers == answers
    reference = evaluate(wrap(logits), X, Y, [0.15], attacks=[HOP])
    assert evaluation.accuracy() == reference.accuracy()
    assert evaluation.accuracy()[0.15] < 1
    assert "an attacker who has them may find more" in evaluation.table()


@pytest.mark.parametrize(
    ("name", "attacks"), [("logits", ("square", "hop-skip-jump")), ("labels", ("plain-noise", "hop-skip-jump"))]
)
def test_the_suite_of_a_predictor_asks_for_no_gradient(name, attacks):
    function, options, _ = FUNCTIONS[name]
    evaluation = evaluate(wrap(function, **options), X[:4], Y[:4], [0.3])
    assert evaluation.attacks[:-1] == attacks
    assert evaluation.masking == ()
    assert evaluation.gap == {}


@pytest.mark.parametrize("norm", ["l2", "l1", "l0"])
@pytest.mark.parametrize("suite", ["quick", "standard"])
def test_there_is_a_suite_for_every_norm_and_answer(norm, suite):
    from mindscope.armour.contract.attack import asks_of
    from mindscope.armour.evaluation.attack_plan import label_attacks, suite_for

    for answers, allowed in (("logits", {"logits", "decisions"}), ("decisions", {"decisions"})):
        assert {asks_of(attack) for attack in label_attacks(suite_for(suite, norm, answers), norm).values()} <= allowed


def test_attacks_that_do_not_fit_are_refused_before_the_first_one():
    asked = []

    def counting(x):
        asked.append(len(x))
        return logits(x)

    with MemoryStore() as store:
        with pytest.raises(InvalidModel, match=r"pgd asks for gradients, and counting answers with scores and no"):
            evaluate(wrap(counting), X, Y, [0.1], attacks=["square", "pgd"], store=store)
        assert asked == []
        labels = wrap(lambda x: logits(x).argmax(axis=1), classes=3)
        with pytest.raises(InvalidModel, match=r"square asks for logits, and <lambda> answers with labels.* fit: hop-"):
            evaluate(labels, X, Y, [0.1], attacks=["square"], store=store)
        assert store.runs() == ()
    with pytest.raises(InvalidModel, match="pgd asks for gradients"):
        PGD()(wrap(logits), X, Y, epsilons=[0.1])


def test_a_query_budget_counts_every_row_and_ends_the_search_with_what_was_found(caplog):
    rows = []

    def remote(x):
        rows.append(len(x))
        return logits(x)

    spent = wrap(remote, queries=600)
    evaluation = evaluate(spent, X, Y, [0.2], attacks=[Square(queries=2000)])
    assert sum(rows) == spent.queries.used <= 600
    (symptom,) = evaluation.masking
    assert (symptom.name, symptom.value) == ("queries-exhausted", 600.0)
    assert "square ends early: the query budget of 600 rows is spent" in caplog.text
    whole = evaluate(wrap(logits), X, Y, [0.2], attacks=[Square(queries=2000)]).accuracy()[0.2]
    assert whole <= evaluation.accuracy()[0.2] < 1


def test_attacks_after_a_spent_query_budget_are_not_run():
    spent = wrap(lambda x: logits(x), queries=600)
    with MemoryStore() as store:
        found = evaluate(spent, X, Y, [0.1, 0.2], attacks=[Square(queries=2000), "plain-noise"], store=store)
        (run,) = store.runs()
        stored = {(outcome.attack, outcome.epsilon): outcome for outcome in store.outcomes(run.id)}
    assert found.accuracy("plain-noise") == {}
    assert set(found.accuracy("square")) == set(found.accuracy()) == {0.0, 0.1}
    assert stored["plain-noise", 0.2].details["reason"] == "the query budget was spent"
    assert np.isnan(stored["square", 0.2].accuracy)
    assert stored["worst-case", 0.1].details["not_run"] == ["plain-noise"]
    (symptom,) = found.masking
    assert "not run: plain-noise, square" in symptom.explanation
    assert "plain-noise was not run at every epsilon: the query budget was spent" in found.table()


def test_a_query_budget_that_cannot_be_kept_is_refused():
    with pytest.raises(InvalidInput, match="queries expects 40 rows or more for the predictions of 24 clean inputs"):
        evaluate(wrap(logits, queries=30), X, Y, [0.1])
    with pytest.raises(InvalidInput, match="a query budget expects jobs=1"):
        evaluate(wrap(logits, queries=3000), X, Y, [0.1], jobs=2)


def test_estimators_and_pipelines_are_asked_for_the_best_that_they_have():
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    names = np.array(["cat", "dog", "owl"])
    estimators = {
        make_pipeline(StandardScaler(), LogisticRegression()): "logits",
        LinearSVC(): "logits",
        SVC(): "logits",
        DecisionTreeClassifier(): "decisions",
        KNeighborsClassifier(1): "decisions",
    }
    for estimator, answers in estimators.items():
        estimator.fit(FLAT, names[Y])
        model = wrap(estimator)
        evaluation = evaluate(model, FLAT, names[Y], [0.3], attacks=[HOP])
        assert model.answers == answers
        assert evaluation.clean_accuracy == np.mean(estimator.predict(FLAT) == names[Y])
        assert evaluation.accuracy()[0.3] < evaluation.clean_accuracy
    assert wrap(LogisticRegression().fit(FLAT, Y), returns="labels").answers == "logits"  # until it has been asked


def test_an_estimator_of_two_classes_or_named_columns_is_called_as_it_was_fitted():
    pandas = pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    table, labels = pandas.DataFrame(FLAT, columns=[f"c{i}" for i in range(12)]), (Y > 0).astype(int)
    for estimator in (SVC().fit(table, labels), LogisticRegression().fit(table, labels)):
        evaluation = evaluate(wrap(estimator), table, labels, [0.3], attacks=[HOP])
        assert evaluation.clean_accuracy == np.mean(estimator.predict(table) == labels)


def test_estimators_that_do_not_fit_are_named():
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.svm import SVC

    with pytest.raises(InvalidModel, match="LinearRegression has no classes_: it is not fitted, or no classifier"):
        wrap(LinearRegression().fit(FLAT, Y))
    with pytest.raises(InvalidModel, match="LogisticRegression has no classes_"):
        wrap(LogisticRegression())
    pairs = SVC(decision_function_shape="ovo").fit(inputs(80).reshape(80, -1), np.arange(80) % 4)
    with pytest.raises(InvalidModel, match=r"returns 6 columns and knows 4 classes; .* decision_function_shape='ovr'"):
        evaluate(wrap(pairs), FLAT, Y, [0.1])
    with pytest.raises(InvalidInput, match=r"labels expects the classes of the model, 0, 1, 2, 3; got .*7"):
        evaluate(wrap(pairs, returns="labels"), FLAT, np.full(len(X), 7), [0.1])


def session(batch, extra_input=False):
    """The network as an ONNX Runtime session."""
    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "hidden"], ["inner"]),
        helper.make_node("Relu", ["inner"], ["active"]),
        helper.make_node("MatMul", ["active", "output"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
        helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
    ]
    weights = {"hidden": HIDDEN, "output": OUTPUT, "bias": frameworks.BIAS - MIDDLE}
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 4])]
        + [helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1])] * extra_input,
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [batch]),
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 3]),
        ],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    buffer = io.BytesIO()
    onnx.save(model, buffer)
    return runtime.InferenceSession(buffer.getvalue(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("batch", ["n", 1, 5], ids=["any batch", "one row", "five rows"])
def test_an_onnx_session_is_attacked_whatever_its_batch(batch):
    model = wrap(session(batch))
    with pytest.warns(UserWarning, match="x is float64"):
        result = HOP(model, X.astype(np.float64), Y, epsilons=[0.15])
    expected = HOP(wrap(logits), X, Y, epsilons=[0.15])
    assert abs(result.robust_accuracy[0] - expected.robust_accuracy[0]) <= 0.05
    assert model.framework == "onnx"


def test_a_session_of_several_inputs_is_refused_with_what_mends_it():
    with pytest.raises(InvalidModel, match=r"got x tensor\(float\), mask tensor\(float\); wrap a function of"):
        wrap(session("n", extra_input=True))


def test_labels_of_a_session_are_taken_where_they_are_named():
    model = wrap(session("n"), output="label", classes=3)
    assert make_attack("plain-noise")(model, X, Y, epsilons=[0.3]).success.any()
    assert model.answers == "decisions"
