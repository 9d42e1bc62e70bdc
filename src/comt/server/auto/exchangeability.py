"""Could the trusted rows be a sample of the believed buggy rows? One p-value from many rank tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from comt.federation.base import Federation
from comt.preparation import Preparation
from comt.problem import Array
from comt.queries import RankCounts, Totals
from comt.server.auto.agents import JUDGED_BY
from comt.server.auto.centres import Centre
from comt.server.auto.evidence import Evidence
from comt.server.auto.ranks import bayes_bound, combine, mean_rank_p, stratified_p, tail_p
from comt.server.auto.trimming import quantiles

ABSOLUTE_ERROR, ALONG_PREDICTION, SIGNED_ERROR, TOWARDS = 0, 1, 3, 4
#: share of targets with one value (zero, often, or a count) from which targets are far from normal
MANY_ALIKE = 0.15


@dataclass(frozen=True)
class Compared:
    """The combined p-value, and the p-values of its parts by name."""

    p: float
    parts: dict[str, float]
    #: how many times smaller the typical error of a buggy row is under the best robust fit than under the plain model
    robust_gain: float
    #: share of the targets that have the most common value
    common: float
    #: nats that ranks of trusted errors say against the plain model
    by_ranks: float

    @property
    def many_alike(self) -> bool:
        """Whether targets are far from normal because many have one value."""
        return self.common > MANY_ALIKE


def compare(
    federation: Federation,
    preparation: Preparation,
    moments: Totals,
    weights: Array,
    evidence: Evidence,
    centres: Sequence[Centre],
    n_folds: int,
    *,
    count_capped: bool = True,
) -> Compared:
    """Test by ranks under the plain fit, towards other centres, under robust fits, and column by column; one exchange.

    Where rows with a capped cell are known to be wrong and left out, that trusted rows have none refutes nothing.
    """
    model = evidence.plain
    free = [c for c in centres if c.by_fold is None]
    towards = [c.theta - model for c in free if not np.allclose(c.theta, model, atol=1e-6)]
    robust = [c.theta for c in free if c.family == "trimmed"]
    held_out = [c.by_fold for c in centres if c.by_fold is not None]
    if n_folds > 1:
        held_out.append(evidence.trusted_fits)
    models = [model] * len(towards) + robust + [theta for by_fold in held_out for theta in by_fold]
    directions = towards + [np.zeros_like(model)] * (len(models) - len(towards))
    first_held_out = len(towards) + len(robust)
    fold = np.append(np.full(first_held_out, -1), np.tile(np.arange(n_folds), len(held_out))).astype(np.int64)
    ranks = federation.sum(
        RankCounts(
            loss_name="squared",
            preparation=preparation,
            agents=federation.agents,
            theta=np.stack(models),
            towards=np.stack(directions),
            weights=np.tile(weights, (len(models), 1)),
            fold=fold,
            n_folds=n_folds,
            inflation=np.append(np.full(len(towards), evidence.believed.optimism), np.ones(len(models) - len(towards))),
        )
    )
    p_values = mean_rank_p(ranks["buggy"], ranks["trusted"])
    if evidence.meets_its_rows:
        p_values[: len(towards)] = 1.0
    by_fold = []
    for index in range(len(held_out)):
        part = slice(first_held_out + index * n_folds, first_held_out + (index + 1) * n_folds)
        by_fold.append(stratified_p(ranks["buggy"][part, ABSOLUTE_ERROR], ranks["trusted"][part, ABSOLUTE_ERROR]))
    columns = np.einsum("k,kcb->cb", weights, moments["columns"])
    under_model = p_values[0, :JUDGED_BY]
    robust_fits = slice(len(towards), first_held_out)
    parts = {
        "errors in the direction of another model": combine(p_values[: len(towards), TOWARDS]),
        "errors under robust fits": combine(np.append(p_values[robust_fits, ABSOLUTE_ERROR], by_fold[:-1])),
        # a row left out is like any other one to the rest of the trusted rows, as long as the unverified ones are right
        "errors under models of other trusted rows": combine(np.array(by_fold[-1:])),
        "rows far off robust fits": combine(
            tail_p(ranks["buggy"][robust_fits, ABSOLUTE_ERROR], ranks["trusted"][robust_fits, ABSOLUTE_ERROR])
        ),
        "columns one by one": combine(mean_rank_p(columns, moments["trusted_columns"])),
        "values far out": _far_out(moments, weights) if count_capped else 1.0,
    }
    p = combine(np.append(under_model, list(parts.values())))
    # a robust fit may be exact for the rows that share one target (zeros, often): the others tell what is typical
    target = columns[len(preparation.center)]
    common = float(target.max() / max(float(target.sum()), 1e-12))
    typical = quantiles(ranks["buggy"][:first_held_out, ABSOLUTE_ERROR], 0.5 + 0.5 * common)
    gain = float(typical[0] / max(float(typical[len(towards) :].min()), 1e-9)) if robust else 1.0
    p_of_size = min(1.0, 2.0 * float(under_model[[ALONG_PREDICTION, SIGNED_ERROR]].min()))
    by_ranks = -float(np.log(bayes_bound(p_of_size)))
    named = {"errors under the plain model": combine(under_model), **parts}
    return Compared(p, named, gain, common, by_ranks)


def _far_out(moments: Totals, weights: Array) -> float:
    """Compare how often a trusted and a buggy row have a capped cell."""
    trusted = int(moments["trusted_rows"].sum())
    capped = trusted - round(float(moments["trusted_whole_rows"]))
    share = 1.0 - float(weights @ moments["whole_rows"]) / max(float(weights @ moments["rows"]), 1e-12)
    if share <= 1e-12 and not capped:
        return 1.0
    return float(binomtest(capped, trusted, min(max(share, 1e-9), 1.0 - 1e-9)).pvalue)
