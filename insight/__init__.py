"""Diagnosis: rules over records, live and offline, and the root causes among their findings."""

from .deviation import deviation
from .diagnosis import LiveDiagnosis, diagnose
from .diagnosis_report import Diagnosis, finding_to_json, render_json, render_markdown, render_text
from .errors import InsightError, InvalidRule, UnknownRule
from .recording import Recording
from .root_causes import root_causes
from .rule import Rule, find_rule, rule
from .rules import RULES
from .stored_diagnosis import stored_diagnosis, stored_verdict
from .verdict import Judgement, RunFacts, Verdict, judge, stored_facts

__all__ = [
    "RULES",
    "Diagnosis",
    "InsightError",
    "InvalidRule",
    "Judgement",
    "LiveDiagnosis",
    "Recording",
    "Rule",
    "RunFacts",
    "UnknownRule",
    "Verdict",
    "deviation",
    "diagnose",
    "find_rule",
    "finding_to_json",
    "judge",
    "render_json",
    "render_markdown",
    "render_text",
    "root_causes",
    "rule",
    "stored_diagnosis",
    "stored_facts",
    "stored_verdict",
]
