"""The moments that the choice starts from; asked step by step where data holders may refuse a part of them.

Owners who do not want to be seen one by one also refuse sums over few trusted rows and sums that few rows tell apart.
Then candidates are left out, not the training: without folds nothing that trusted rows went into is a candidate, and
without the rows that have no far-out value there is no fit of these rows.
"""

from __future__ import annotations

from comt.federation.base import Federation
from comt.losses import LossName
from comt.preparation import Preparation
from comt.queries import EVERYBODY, MomentsByAgent, Totals
from comt.server.ask import sum_if_allowed
from comt.server.auto.agents import ask_moments
from comt.server.auto.rescaling import by_trusted_targets, lie_within, rescaled
from comt.server.auto.tails import straight_tails


def ask_for_choice(federation: Federation, preparation: Preparation, n_folds: int) -> tuple[Preparation, Totals]:
    """Return the preparation (rescaled if trusted rows ask for it) and the moments; one exchange up to seven."""
    together = federation.agents == (EVERYBODY,)
    folds, whole = (1, False) if together else (n_folds, True)
    moments = ask_moments(federation, preparation, n_folds=folds, whole=whole)
    narrower = by_trusted_targets(preparation, moments)
    if narrower is not None:
        found = ask_moments(federation, narrower, n_folds=folds, whole=whole)
        if lie_within(narrower, found):
            preparation, moments = narrower, found
    better = rescaled(preparation, moments)
    if better is not None:
        preparation = better
        moments = ask_moments(federation, preparation, n_folds=folds, whole=whole)
    straight = straight_tails(federation, preparation, moments, folds, whole=whole)
    if straight is not None:
        preparation, moments = straight
    if together:
        found = _folds(federation, preparation, n_folds)
        moments = {**moments, **found, **_whole(federation, preparation, "squared", moments)}
    return preparation, moments


def ask_about_labels(federation: Federation, preparation: Preparation) -> Totals:
    """Return the moments that the choice for labels starts from; one exchange or two."""
    if federation.agents != (EVERYBODY,):
        return ask_moments(federation, preparation, "logistic", whole=True)
    moments = ask_moments(federation, preparation, "logistic")
    return {**moments, **_whole(federation, preparation, "logistic", moments)}


def _folds(federation: Federation, preparation: Preparation, n_folds: int) -> Totals:
    """Return the moments of the trusted rows fold by fold, if every fold holds enough of them."""
    found = sum_if_allowed(federation, _question(federation, preparation, "squared", n_folds, whole=False))
    return {} if found is None else {name: found[name] for name in ("trusted", "trusted_rows")}


def _whole(federation: Federation, preparation: Preparation, loss_name: LossName, moments: Totals) -> Totals:
    """Return the moments of rows without a capped cell; those of all rows if too few rows tell them apart."""
    found = sum_if_allowed(federation, _question(federation, preparation, loss_name, 1, whole=True))
    if found is not None:
        return {name: found[name] for name in ("whole", "whole_rows", "trusted_whole_rows")}
    return {
        "whole": moments["moments"],
        "whole_rows": moments["rows"],
        "trusted_whole_rows": moments["trusted_rows"].sum(),
    }


def _question(
    federation: Federation, preparation: Preparation, loss_name: LossName, n_folds: int, *, whole: bool
) -> MomentsByAgent:
    return MomentsByAgent(
        loss_name=loss_name, preparation=preparation, agents=federation.agents, n_folds=n_folds, whole=whole
    )
