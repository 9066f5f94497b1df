import numpy as np
from mindscope.armour import Misclassification, Targeted

LOGITS = np.array([[3.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 2.0, 2.5]])
LABELS = np.array([0, 0, 0])


def test_misclassified_is_what_is_given_another_class():
    np.testing.assert_array_equal(Misclassification(LABELS).met(LOGITS), [False, True, True])


def test_a_margin_asks_another_logit_to_lead_the_labels_own():
    np.testing.assert_array_equal(Misclassification(LABELS, margin=2.2).met(LOGITS), [False, False, True])


def test_a_target_is_met_by_its_own_class_only():
    np.testing.assert_array_equal(Targeted(np.array([1, 1, 2])).met(LOGITS), [False, True, True])


def test_a_target_with_a_margin_must_lead_all_others():
    np.testing.assert_array_equal(Targeted(np.array([0, 1, 2]), margin=1.0).met(LOGITS), [True, True, False])


def test_criteria_combine_and_keep_to_their_samples():
    both = Misclassification(LABELS) & Targeted(np.array([1, 1, 1]))
    np.testing.assert_array_equal(both.met(LOGITS), [False, True, False])
    np.testing.assert_array_equal(both.take(np.array([1])).met(LOGITS[[1]]), [True])
    assert not both.is_targeted
    np.testing.assert_array_equal(both.anchor, LABELS)
