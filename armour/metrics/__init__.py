"""Numbers that describe attacks, defences and models: DEEPSEC's, CLEVER, empirical robustness."""

from .attack_quality import AttackQuality, attack_quality, examples_quality, structural_similarity
from .defence_quality import DefenceQuality, defence_quality
from .detector_quality import DetectorQuality, detector_quality
from .query_defence import QueryDefence, ask_both, query_defence
from .robustness_estimates import clever, empirical_robustness, smallest_changes

__all__ = [
    "AttackQuality",
    "DefenceQuality",
    "DetectorQuality",
    "QueryDefence",
    "ask_both",
    "attack_quality",
    "clever",
    "defence_quality",
    "detector_quality",
    "empirical_robustness",
    "examples_quality",
    "query_defence",
    "smallest_changes",
    "structural_similarity",
]
