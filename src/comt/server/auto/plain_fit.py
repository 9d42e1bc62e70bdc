"""Are the believed rows right? The odds for their plain fit, after all that the trusted rows have to say against it."""

from __future__ import annotations

import numpy as np

from comt.problem import Array
from comt.server.auto.centres import target_mean
from comt.server.auto.correction import PRIOR_ROWS
from comt.server.auto.evidence import Evidence
from comt.server.auto.exchangeability import Compared
from comt.server.auto.ranks import bayes_bound

#: odds before the trusted rows are looked at
PLAIN_ODDS = 15.0
#: share of the target's variance that the plain fit must explain to be taken seriously
EXPLAINS = 0.25
#: power of what it explains where nothing says that targets are negated in part
UNCERTAIN = 0.5
#: typical errors so many times smaller under a robust fit say that few rows decide the plain one
PULLED_AWAY = 2.4
#: how much smaller held-out errors must be to speak against the plain fit, and how fast that ends where the other model
#: explains less of the unverified rows (CPUSMALL's rare rows are seldom among twenty trusted ones)
CLEARLY, RARE = 1.15, 3
#: so many rows at least would have to be rare to matter: many trusted rows among few unverified ones would have met one
RARE_ROWS = 5.0


def speaks_for_rows(evidence: Evidence, compared: Compared, two_signs: float) -> float:
    """Return how far the plain fit speaks for the believed rows, from 0 to 1.

    A fit that explains little speaks for them as long as they do not look negated in part (``two_signs``, from 0 to 1):
    the matter may be uncertain. A few rows that pull it away from most others do not speak for them, however much they
    explain.
    """
    explains = min(1.0, evidence.explained / EXPLAINS) ** (UNCERTAIN + (1.0 - UNCERTAIN) * two_signs)
    return float(explains * min(1.0, (PULLED_AWAY / compared.robust_gain) ** 4))


def plain_log_odds(
    evidence: Evidence, compared: Compared, speaks: float, averaged: Array, averaged_error: float, of_two_signs: float
) -> float:
    """Return the log odds that the believed rows are right, not wrong in some way that the ``averaged`` model stands for.

    ``averaged_error`` is its squared error on trusted rows that were left out, ``of_two_signs`` the share of models in it
    that say of every unverified row that it is right or negated.
    """
    believed, trusted, plain = evidence.believed, evidence.trusted, evidence.plain
    constant = np.zeros_like(plain)
    if evidence.preparation.constant:
        constant[-1] = target_mean(evidence.preparation, believed) / evidence.preparation.constant
    error = max(trusted.squared_error(plain), 1e-12)
    log_odds = np.log(PLAIN_ODDS) + 2.0 * np.log(max(speaks, 1e-12)) + np.log(bayes_bound(compared.p))
    # a plain fit twice as bad as a constant is refuted; so is one that explains nothing where others explain the rows
    log_odds += 0.5 * trusted.rows * min(0.0, np.log(2.0 * trusted.squared_error(constant) / error + 1e-300))
    others = 2.0 * (averaged_error + evidence.error_size) / error + 1e-300
    log_odds += 0.5 * trusted.rows * (1.0 - speaks) * min(0.0, np.log(others))
    # errors on trusted rows speak against the plain fit, unless what the other model leaves unexplained may be rare rows
    usual = PRIOR_ROWS * min(evidence.error_size, evidence.usual_error)
    better = CLEARLY * (averaged_error + usual) / (error + usual) + 1e-300
    met = (1.0 - np.exp(-RARE_ROWS * trusted.rows / max(believed.rows, 1.0))) ** 2
    as_much = max(_explains_as_much(evidence, averaged), of_two_signs)
    log_odds += 0.5 * trusted.rows * max(as_much**RARE, met) * min(0.0, np.log(better))
    return float(log_odds)


def _explains_as_much(evidence: Evidence, averaged: Array) -> float:
    """Return how much of what the plain fit explains of the believed rows the averaged model explains, too."""
    # a model explains rows whose targets are all negated as well as its mirror image does
    mirrored = evidence.preparation.multiplied(averaged, -1.0)
    instead = max(evidence.explained_by(averaged), evidence.explained_by(mirrored))
    return min(1.0, instead / max(evidence.explained, 1e-12))
