"""Numbers that describe attacks, defences and models: DEEPSEC's, CLEVER, empirical robustness."""

from .asking import ask_both
from .attack_quality import AttackQuality, attack_quality, examples_quality
from .clever import clever
from .defence_quality import DefenceQuality, defence_quality
from .detection import Detection, detection
from .empirical_robustness import empirical_robustness
from .query_defence import QueryDefence, query_defence
from .structural_similarity import structural_similarity

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
