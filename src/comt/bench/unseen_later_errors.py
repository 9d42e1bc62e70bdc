"""What goes wrong in cells that automatic choice was not designed on, from the seventh group on (see ``unseen_errors``)."""

from __future__ import annotations

from comt.datasets import Corruption
from comt.datasets.corruptions import (
    AsymmetricFlips,
    Clean,
    FeatureDependentFlips,
    GaussianNoise,
    LabelFlips,
    MissingCodes,
    Mixed,
    NegatedTargets,
    RuleOfThumb,
    ScaledTargets,
    ShiftedTargets,
    UnitError,
    WrongAgents,
)

#: and once errors that depend on the prediction were no longer taken for a second unit: written down on 17 November 2026,
#: committed before their first run
SEVENTH_REGRESSION: dict[str, Corruption] = {
    "clean": Clean(),
    "45 % negated": NegatedTargets(fraction=0.45),
    "two of five agents negated": WrongAgents(agents=2),
    "one agent shifted down": ShiftedTargets(shift=-2.5, agents=1),
    "35 % of the targets × 6": ScaledTargets(fraction=0.35, factor=6.0),
    "targets × 3 at two agents": ScaledTargets(fraction=1.0, factor=3.0, agents=2),
    "codes 888": MissingCodes(code=888.0, fraction=0.2, columns=3),
    "feature noise 1.8": GaussianNoise(theta_features=1.8, theta_targets=0.0),
    "noise 0.8 everywhere": GaussianNoise(theta_features=0.8, theta_targets=0.8),
    "several errors": Mixed(theta=0.7, agents=2),
}
SEVENTH_CLASSIFICATION: dict[str, Corruption] = {
    "clean": Clean(),
    "12 % flips": LabelFlips(fraction=0.12),
    "33 % flips": LabelFlips(fraction=0.33),
    "56 % flips": LabelFlips(fraction=0.56),
    "65 % of one class flipped": AsymmetricFlips(fraction=0.65, label=1.0),
    "three agents reversed": WrongAgents(agents=3),
    "flips by three columns": FeatureDependentFlips(fraction=0.35, columns=3),
    "rule on one column": RuleOfThumb(fraction=0.3),
    "codes 888": MissingCodes(code=888.0, fraction=0.2, columns=3),
    "feature noise 1.8": GaussianNoise(theta_features=1.8, theta_targets=0.0),
    "several errors": Mixed(theta=0.7, flips=0.3, agents=2),
}
SEVENTH = {
    "counts": SEVENTH_REGRESSION,
    "blood sugar": SEVENTH_REGRESSION,
    "fast progression": SEVENTH_CLASSIFICATION,
    "skewed columns": SEVENTH_CLASSIFICATION,
}
#: and once fits that are too large were looked for among counts, and vague labels read otherwise: written down on 18 November
#: 2026, committed before their first run
EIGHTH_REGRESSION: dict[str, Corruption] = {
    "clean": Clean(),
    "18 % negated": NegatedTargets(fraction=0.18),
    "four of five agents negated": WrongAgents(agents=4),
    "two agents shifted far down": ShiftedTargets(shift=-3.0),
    "15 % of the targets × 12": ScaledTargets(fraction=0.15, factor=12.0),
    "targets a third at two agents": ScaledTargets(fraction=1.0, factor=1.0 / 3.0, agents=2),
    "column × 60 at one agent": UnitError(factor=60.0),
    "codes −9": MissingCodes(code=-9.0, fraction=0.3, columns=2),
    "feature noise 1.1": GaussianNoise(theta_features=1.1, theta_targets=0.0),
    "several errors": Mixed(theta=0.9, agents=1),
}
EIGHTH_CLASSIFICATION: dict[str, Corruption] = {
    "clean": Clean(),
    "18 % flips": LabelFlips(fraction=0.18),
    "36 % flips": LabelFlips(fraction=0.36),
    "59 % flips": LabelFlips(fraction=0.59),
    "30 % of one class flipped": AsymmetricFlips(fraction=0.3, label=1.0),
    "four agents reversed": WrongAgents(agents=4),
    "flips by two columns": FeatureDependentFlips(fraction=0.25, columns=2),
    "rule on one column": RuleOfThumb(fraction=0.4),
    "column × 60 at one agent": UnitError(factor=60.0),
    "codes −9": MissingCodes(code=-9.0, fraction=0.3, columns=2),
    "feature noise 1.1": GaussianNoise(theta_features=1.1, theta_targets=0.0),
    "several errors": Mixed(theta=0.9, flips=0.2, agents=1),
}
EIGHTH = {
    "body mass": EIGHTH_REGRESSION,
    "waiting times": EIGHTH_REGRESSION,
    "cultivar": EIGHTH_CLASSIFICATION,
    "yes or no": EIGHTH_CLASSIFICATION,
}
#: and once agents that contradict each other were put into one unit, and priors of labels were set anew: written down on 18
#: November 2026, committed before their first run
NINTH_REGRESSION: dict[str, Corruption] = {
    "clean": Clean(),
    "22 % negated": NegatedTargets(fraction=0.22),
    "three of five agents negated": WrongAgents(agents=3),
    "one agent shifted up": ShiftedTargets(shift=2.0, agents=1),
    "30 % of the targets × 5": ScaledTargets(fraction=0.3, factor=5.0),
    "targets a tenth at one agent": ScaledTargets(fraction=1.0, factor=0.1, agents=1),
    "column × 30 at one agent": UnitError(factor=30.0),
    "codes −5": MissingCodes(code=-5.0, fraction=0.25, columns=3),
    "feature noise 1.3": GaussianNoise(theta_features=1.3, theta_targets=0.0),
    "noise 0.6 everywhere": GaussianNoise(theta_features=0.6, theta_targets=0.6),
    "several errors": Mixed(theta=0.75, agents=2),
}
NINTH_CLASSIFICATION: dict[str, Corruption] = {
    "clean": Clean(),
    "22 % flips": LabelFlips(fraction=0.22),
    "41 % flips": LabelFlips(fraction=0.41),
    "61 % flips": LabelFlips(fraction=0.61),
    "25 % of one class flipped": AsymmetricFlips(fraction=0.25, label=1.0),
    "two agents reversed": WrongAgents(agents=2),
    "flips by three columns": FeatureDependentFlips(fraction=0.3, columns=3),
    "rule on one column": RuleOfThumb(fraction=0.35),
    "column × 30 at one agent": UnitError(factor=30.0),
    "codes −5": MissingCodes(code=-5.0, fraction=0.25, columns=3),
    "feature noise 1.3": GaussianNoise(theta_features=1.3, theta_targets=0.0),
    "several errors": Mixed(theta=0.75, flips=0.25, agents=2),
}
NINTH = {
    "proline": NINTH_REGRESSION,
    "ratings": NINTH_REGRESSION,
    "proportions": NINTH_REGRESSION,
    "nines": NINTH_CLASSIFICATION,
    "ten errors": NINTH_CLASSIFICATION,
    "correlated columns": NINTH_CLASSIFICATION,
}
#: and once plain fits kept their parameters, and trusted rows were counted as rows of one unit: written down on 18 November
#: 2026, committed before their first run
TENTH_REGRESSION: dict[str, Corruption] = {
    "clean": Clean(),
    "28 % negated": NegatedTargets(fraction=0.28),
    "one of five agents negated": WrongAgents(agents=1),
    "two agents shifted up": ShiftedTargets(shift=1.2),
    "20 % of the targets × 4": ScaledTargets(fraction=0.2, factor=4.0),
    "targets × 7 at one agent": ScaledTargets(fraction=1.0, factor=7.0, agents=1),
    "column a fiftieth at one agent": UnitError(factor=0.02),
    "codes 99": MissingCodes(code=99.0, fraction=0.15, columns=3),
    "feature noise 0.9": GaussianNoise(theta_features=0.9, theta_targets=0.0),
    "noise 1 everywhere": GaussianNoise(theta_features=1.0, theta_targets=1.0),
    "several errors": Mixed(theta=1.2, agents=1),
}
TENTH_CLASSIFICATION: dict[str, Corruption] = {
    "clean": Clean(),
    "28 % flips": LabelFlips(fraction=0.28),
    "44 % flips": LabelFlips(fraction=0.44),
    "64 % flips": LabelFlips(fraction=0.64),
    "45 % of one class flipped": AsymmetricFlips(fraction=0.45, label=1.0),
    "three agents reversed": WrongAgents(agents=3),
    "flips by two columns": FeatureDependentFlips(fraction=0.35, columns=2),
    "rule on one column": RuleOfThumb(fraction=0.3),
    "column a fiftieth at one agent": UnitError(factor=0.02),
    "codes 99": MissingCodes(code=99.0, fraction=0.15, columns=3),
    "feature noise 0.9": GaussianNoise(theta_features=0.9, theta_targets=0.0),
    "several errors": Mixed(theta=1.2, flips=0.3, agents=1),
}
TENTH = {
    "blood pressure": TENTH_REGRESSION,
    "area errors": TENTH_REGRESSION,
    "products of columns": TENTH_REGRESSION,
    "fours and nines": TENTH_CLASSIFICATION,
    "worst measurements": TENTH_CLASSIFICATION,
    "25 columns": TENTH_CLASSIFICATION,
}
#: and once long tails that are right were left as they are: written down on 18 November 2026, committed before their first run
ELEVENTH_REGRESSION: dict[str, Corruption] = {
    "clean": Clean(),
    "32 % negated": NegatedTargets(fraction=0.32),
    "four of five agents negated": WrongAgents(agents=4),
    "one agent shifted up": ShiftedTargets(shift=1.5, agents=1),
    "25 % of the targets × 3": ScaledTargets(fraction=0.25, factor=3.0),
    "targets a half at two agents": ScaledTargets(fraction=1.0, factor=0.5, agents=2),
    "column × 15 at one agent": UnitError(factor=15.0),
    "codes −77": MissingCodes(code=-77.0, fraction=0.2, columns=2),
    "feature noise 1.5": GaussianNoise(theta_features=1.5, theta_targets=0.0),
    "noise 0.7 everywhere": GaussianNoise(theta_features=0.7, theta_targets=0.7),
    "several errors": Mixed(theta=0.85, agents=2),
}
ELEVENTH_CLASSIFICATION: dict[str, Corruption] = {
    "clean": Clean(),
    "24 % flips": LabelFlips(fraction=0.24),
    "43 % flips": LabelFlips(fraction=0.43),
    "60 % flips": LabelFlips(fraction=0.6),
    "38 % of one class flipped": AsymmetricFlips(fraction=0.38, label=1.0),
    "one agent reversed": WrongAgents(agents=1),
    "flips by three columns": FeatureDependentFlips(fraction=0.28, columns=3),
    "rule on one column": RuleOfThumb(fraction=0.25),
    "column × 15 at one agent": UnitError(factor=15.0),
    "codes −77": MissingCodes(code=-77.0, fraction=0.2, columns=2),
    "feature noise 1.5": GaussianNoise(theta_features=1.5, theta_targets=0.0),
    "several errors": Mixed(theta=0.85, flips=0.2, agents=2),
}
ELEVENTH = {
    "school results": ELEVENTH_REGRESSION,
    "years married": ELEVENTH_REGRESSION,
    "party preference": ELEVENTH_REGRESSION,
    "affairs": ELEVENTH_CLASSIFICATION,
    "votes": ELEVENTH_CLASSIFICATION,
    "journeys": ELEVENTH_CLASSIFICATION,
}
#: and once labels were fitted with penalties of two shapes: written down on 18 November 2026, committed before their first run
TWELFTH_REGRESSION: dict[str, Corruption] = {
    "clean": Clean(),
    "27 % negated": NegatedTargets(fraction=0.27),
    "three of five agents negated": WrongAgents(agents=3),
    "two agents shifted down": ShiftedTargets(shift=-1.3),
    "15 % of the targets × 6": ScaledTargets(fraction=0.15, factor=6.0),
    "targets × 4 at one agent": ScaledTargets(fraction=1.0, factor=4.0, agents=1),
    "column × 30 at one agent": UnitError(factor=30.0),
    "codes −9": MissingCodes(code=-9.0, fraction=0.12, columns=3),
    "feature noise 1.1": GaussianNoise(theta_features=1.1, theta_targets=0.0),
    "noise 0.8 everywhere": GaussianNoise(theta_features=0.8, theta_targets=0.8),
    "several errors": Mixed(theta=0.95, agents=1),
}
TWELFTH_CLASSIFICATION: dict[str, Corruption] = {
    "clean": Clean(),
    "26 % flips": LabelFlips(fraction=0.26),
    "39 % flips": LabelFlips(fraction=0.39),
    "63 % flips": LabelFlips(fraction=0.63),
    "55 % of one class flipped": AsymmetricFlips(fraction=0.55, label=1.0),
    "two agents reversed": WrongAgents(agents=2),
    "flips by two columns": FeatureDependentFlips(fraction=0.32, columns=2),
    "rule on one column": RuleOfThumb(fraction=0.35),
    "column × 30 at one agent": UnitError(factor=30.0),
    "codes −9": MissingCodes(code=-9.0, fraction=0.12, columns=3),
    "feature noise 1.1": GaussianNoise(theta_features=1.1, theta_targets=0.0),
    "several errors": Mixed(theta=0.95, flips=0.28, agents=1),
}
TWELFTH = {
    "income": TWELFTH_REGRESSION,
    "ink": TWELFTH_REGRESSION,
    "seasons": TWELFTH_REGRESSION,
    "visits": TWELFTH_CLASSIFICATION,
    "ones and sevens": TWELFTH_CLASSIFICATION,
    "12 columns": TWELFTH_CLASSIFICATION,
}
#: and once flips that follow the features were models of their own: written down on 18 November 2026, committed before their
#: first run
THIRTEENTH_REGRESSION: dict[str, Corruption] = {
    "clean": Clean(),
    "24 % negated": NegatedTargets(fraction=0.24),
    "two of five agents negated": WrongAgents(agents=2),
    "three agents shifted down": ShiftedTargets(shift=-0.9, agents=3),
    "30 % of the targets × 7": ScaledTargets(fraction=0.3, factor=7.0),
    "targets a fifth at one agent": ScaledTargets(fraction=1.0, factor=0.2, agents=1),
    "column × 80 at one agent": UnitError(factor=80.0),
    "codes 55": MissingCodes(code=55.0, fraction=0.18, columns=2),
    "feature noise 1.4": GaussianNoise(theta_features=1.4, theta_targets=0.0),
    "noise 0.9 everywhere": GaussianNoise(theta_features=0.9, theta_targets=0.9),
    "several errors": Mixed(theta=0.65, agents=2),
}
THIRTEENTH_CLASSIFICATION: dict[str, Corruption] = {
    "clean": Clean(),
    "22 % flips": LabelFlips(fraction=0.22),
    "41 % flips": LabelFlips(fraction=0.41),
    "66 % flips": LabelFlips(fraction=0.66),
    "48 % of one class flipped": AsymmetricFlips(fraction=0.48, label=1.0),
    "four agents reversed": WrongAgents(agents=4),
    "flips by three columns": FeatureDependentFlips(fraction=0.33, columns=3),
    "rule on one column": RuleOfThumb(fraction=0.28),
    "column × 80 at one agent": UnitError(factor=80.0),
    "codes 55": MissingCodes(code=55.0, fraction=0.18, columns=2),
    "feature noise 1.4": GaussianNoise(theta_features=1.4, theta_targets=0.0),
    "several errors": Mixed(theta=0.65, flips=0.22, agents=2),
}
THIRTEENTH = {
    "schooling": THIRTEENTH_REGRESSION,
    "fractal dimension": THIRTEENTH_REGRESSION,
    "left or right": THIRTEENTH_REGRESSION,
    "occupation": THIRTEENTH_CLASSIFICATION,
    "twos and threes": THIRTEENTH_CLASSIFICATION,
    "16 columns": THIRTEENTH_CLASSIFICATION,
}
