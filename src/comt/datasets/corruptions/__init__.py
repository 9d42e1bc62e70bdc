"""Ways in which data go wrong, by name.

Every entry of ``CORRUPTIONS`` is a frozen dataclass with default parameters; vary one with
``dataclasses.replace(CORRUPTIONS["label_flips"], fraction=0.2)`` or build it from its class.
"""

from __future__ import annotations

from comt.datasets.corruptions.agents import MaliciousAgent, WrongAgents
from comt.datasets.corruptions.base import Clean, CorruptedRows, Corruption
from comt.datasets.corruptions.cells import MissingCodes, UnitError
from comt.datasets.corruptions.labels import AsymmetricFlips, FeatureDependentFlips, LabelFlips, RuleOfThumb
from comt.datasets.corruptions.noise import GaussianNoise, magnitude
from comt.datasets.corruptions.rows import DuplicatedRows, Mixed
from comt.datasets.corruptions.targets import NegatedTargets, ScaledTargets, ShiftedTargets

CORRUPTIONS: dict[str, Corruption] = {
    "clean": Clean(),
    "gaussian_noise": GaussianNoise(),
    "feature_noise": GaussianNoise(theta_targets=0.0),
    "target_noise": GaussianNoise(theta_features=0.0),
    "label_flips": LabelFlips(),
    "asymmetric_flips": AsymmetricFlips(),
    "feature_dependent_flips": FeatureDependentFlips(),
    "rule_of_thumb": RuleOfThumb(),
    "negated_targets": NegatedTargets(),
    "wrong_agents": WrongAgents(),
    "shifted_targets": ShiftedTargets(),
    "unit_error": UnitError(),
    "missing_codes": MissingCodes(),
    "missing_zeros": MissingCodes(code=0.0),
    "duplicated_rows": DuplicatedRows(),
    "scaled_targets": ScaledTargets(),
    "malicious_agent": MaliciousAgent(),
    "mixed": Mixed(),
}

__all__ = [
    "CORRUPTIONS",
    "AsymmetricFlips",
    "Clean",
    "CorruptedRows",
    "Corruption",
    "DuplicatedRows",
    "FeatureDependentFlips",
    "GaussianNoise",
    "LabelFlips",
    "MaliciousAgent",
    "MissingCodes",
    "Mixed",
    "NegatedTargets",
    "RuleOfThumb",
    "ScaledTargets",
    "ShiftedTargets",
    "UnitError",
    "WrongAgents",
    "magnitude",
]
