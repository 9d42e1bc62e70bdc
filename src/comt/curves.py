"""The curve of score against the selected fraction ϱ: what users want to see before they drop rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from comt.errors import InputError
from comt.federation import LocalFederation
from comt.server.selection import FRACTIONS, Rule, held_out_curve

if TYPE_CHECKING:
    import pandas as pd


def selection_curve(
    model: Any,
    *,
    rules: Sequence[Rule] = ("alpha", "loss"),
    fractions: Sequence[float] = FRACTIONS,
    n_folds: int = 5,
) -> pd.DataFrame:
    """Score every fraction under both rules on trusted rows left out of training.

    Parameters
    ----------
    model:
        A CoMT estimator fitted in this process.
    rules:
        ``"alpha"``: the paper's (largest \\|α\\|); ``"loss"``: smallest loss, refitted.
    fractions, n_folds:
        Which fractions to try, over how many folds of the trusted rows.

    Returns
    -------
    DataFrame with ``rule``, ``fraction``, ``loss`` (mean on held-out trusted rows), ``loss_error`` (its standard error) and
    ``score`` (R² in regression, share of right labels in classification).
    """
    import pandas as pd

    training = getattr(model, "_training", None)
    if training is None:
        raise InputError("selection_curve needs a model fitted in this process; call fit first.")
    trusted = int(training.solution.sums.trusted_rows)
    if trusted < 2:
        raise InputError(f"the model has {trusted} trusted rows; a curve needs at least 2 to be scored on.")
    federation = LocalFederation(model._agents)
    with federation.open():
        points = held_out_curve(
            federation,
            training.preparation,
            training.problem,
            training.solution,
            rules,
            fractions,
            n_folds=min(n_folds, trusted),
            tol=training.settings.tol,
            max_rounds=200,
        )
    return pd.DataFrame([asdict(point) for point in points])
