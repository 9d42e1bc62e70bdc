"""Every competitor, one file each, one interface. Simulations: they see all agents' rows, and say what they would send."""

from comt.baselines.base import AgentRows, Baseline, LinearModel
from comt.baselines.buggy_only import BuggyOnly
from comt.baselines.centered_clipping import CenteredClipping
from comt.baselines.cocoa import CoCoA
from comt.baselines.confident_learning import ConfidentLearning
from comt.baselines.coordinate_median import CoordinateMedian
from comt.baselines.duti import Duti
from comt.baselines.fedavg import FedAvg
from comt.baselines.fedprox import FedProx
from comt.baselines.fltrust import FLTrust
from comt.baselines.geometric_median import GeometricMedian
from comt.baselines.glc import GLC
from comt.baselines.krum import Krum, MultiKrum
from comt.baselines.learning_to_reweight import LearningToReweight
from comt.baselines.local_only import LocalOnly
from comt.baselines.rewlse import Rewlse
from comt.baselines.rlr import Rlr
from comt.baselines.rolr import Rolr
from comt.baselines.trimmed_mean import TrimmedMean
from comt.baselines.trusted_only import TrustedOnly

#: all baselines by name
BASELINES: dict[str, type[Baseline]] = {
    baseline.name: baseline
    for baseline in (
        TrustedOnly, BuggyOnly, LocalOnly, FedAvg, FedProx, CoCoA, Duti, Rewlse, Rolr, Rlr, FLTrust, GLC,
        LearningToReweight, CoordinateMedian, TrimmedMean, Krum, MultiKrum, GeometricMedian, CenteredClipping,
        ConfidentLearning,
    )
}  # fmt: skip

__all__ = ["BASELINES", "AgentRows", "Baseline", "LinearModel", *sorted(c.__name__ for c in BASELINES.values())]
