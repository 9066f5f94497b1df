"""Numbers that describe attacks, defences and models: DEEPSEC's, CLEVER, empirical robustness."""

from .attack_quality import AttackQuality, attack_quality, examples_quality, structural_similarity
from .defence_quality import DefenceQuality, defence_quality
from .detection_quality import Detection, detection
from .query_defence import QueryDefence, ask_both, query_defence
from .robustness_estimates import clever, empirical_robustness

__all__ = [
    "AttackQuality",
    "DefenceQuality",
    "Detection",
    "QueryDefence",
    "ask_both",
    "attack_quality",
    "clever",
    "defence_quality",
    "detection",
    "empirical_robustness",
    "examples_quality",
    "query_defence",
    "structural_similarity",
]
