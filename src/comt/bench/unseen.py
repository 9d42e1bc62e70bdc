"""Cells that automatic choice was not designed on: other data, other corruptions. Run them to report, not to tune.

The data sets come with scikit-learn; the corruptions are kinds or sizes of errors that occur in no cell of ``choice``.
"""

from __future__ import annotations

from comt.bench.unseen_errors import GROUPS
from comt.bench.unseen_tables import MADE_UP
from comt.datasets import Corruption
from comt.datasets.corruptions import AsymmetricFlips, FeatureDependentFlips, LabelFlips, ScaledTargets, WrongAgents

TRUSTED = (6, 24, 96)
_OURS = {data: kinds for group in GROUPS.values() for data, kinds in group.items()}
#: where the recipes that ours began with lost when they were tried on what they were not designed for, as their authors
#: noted: (data, what goes wrong) and the numbers of trusted rows
PROTOTYPES: dict[tuple[str, str], tuple[Corruption, tuple[int, ...]]] = {
    ("low signal", "all agents negated"): (WrongAgents(agents=5), (5, 10, 20)),
    ("linear", "30 % of the targets × 10"): (ScaledTargets(fraction=0.3, factor=10.0), (5, 10)),
    ("linear", "targets × 10 at two agents"): (ScaledTargets(fraction=1.0, factor=10.0, agents=2), (5,)),
    ("54 columns", "40 % flips"): (LabelFlips(fraction=0.4), (5, 20, 100)),
    ("logistic", "70 % of one class flipped"): (AsymmetricFlips(fraction=0.7), (5,)),
    ("logistic", "flips by two columns"): (FeatureDependentFlips(fraction=0.3, columns=2), (20,)),
}
#: data sets with labels
LABELLED = frozenset(
    {name for name, kinds in _OURS.items() if any(isinstance(wrong, LabelFlips) for wrong in kinds.values())}
    | {name for name, (task, *_) in MADE_UP.items() if task == "classification"}
)
#: every cell: (data, what goes wrong, size of it, trusted rows); sizes are part of the names here
CELLS = (
    *((data, wrong, 0.0, m) for data, kinds in _OURS.items() for wrong in kinds for m in TRUSTED),
    *((*cell, 0.0, m) for cell, (_, trusted) in PROTOTYPES.items() for m in trusted),
)


def corruption(data: str, wrong: str) -> Corruption:
    """Return what goes wrong in a cell."""
    return PROTOTYPES[data, wrong][0] if data in MADE_UP else _OURS[data][wrong]
