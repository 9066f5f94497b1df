"""Diagnosis: rules over records, live and offline, and the root causes among their findings."""

from .deviation import deviation
from .diagnosis import LiveDiagnosis, diagnose
from .diagnosis_report import Diagnosis, Verdict, finding_to_json, render_json, render_markdown, render_text
from .errors import InsightError, InvalidRule, UnknownRule
from .recording import Recording
from .root_causes import root_causes
from .rule import Rule, find_rule, rule
from .rules import RULES

__all__ = [
    "RULES",
    "Diagnosis",
    "InsightError",
    "InvalidRule",
    "LiveDiagnosis",
    "Recording",
    "Rule",
    "UnknownRule",
    "Verdict",
    "deviation",
    "diagnose",
    "find_rule",
    "finding_to_json",
    "render_json",
    "render_markdown",
    "render_text",
    "root_causes",
    "rule",
]
