"""Flipped labels at five clinics, an expert with time for 40 rows, and what a second training makes of the answers.

The data set is the breast cancer table that comes with scikit-learn.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from comt import CoMTClassifier, Decision, Reviews
from comt.agent.inspection import inspect_first

CLINICS, VERIFIED, FLIPPED, BUDGET = 5, 12, 0.35, 40


def main() -> None:
    data = load_breast_cancer(as_frame=True)
    X, y = data.data, np.where(data.target == 1, "benign", "malignant")
    rng = np.random.default_rng(3)
    order = rng.permutation(len(y))
    test, train = order[:180], order[180:]
    clinic = rng.integers(CLINICS, size=len(train))
    trusted = np.arange(len(train)) < VERIFIED
    flipped = ~trusted & (rng.random(len(train)) < FLIPPED)
    truth = y[train]
    given = np.where(flipped, np.where(truth == "benign", "malignant", "benign"), truth)
    rows = X.iloc[train].reset_index(drop=True)

    model = CoMTClassifier(lambda_w=100.0, lambda_trusted=10.0, warm_start=True)

    def auc() -> float:
        return float(roc_auc_score(y[test] == "malignant", model.decision_function(X.iloc[test])))

    model.fit(rows, given, agents=clinic, trusted=trusted)
    issues, first = model.issues(), auc()
    worst = issues.head(int(flipped.sum()))
    print(f"{int(flipped.sum())} of {len(train)} labels are flipped, {VERIFIED} are verified. AUC {first:.3f}.")
    print(f"Of as many rows at the top of the issue table, {flipped[worst['row']].mean():.0%} are indeed flipped.")
    assert first > 0.9

    # three quarters of what the expert sees looks worst, a quarter is drawn at random
    shown = inspect_first(issues, BUDGET)
    decisions = []
    for row, suggested, drawn in shown[["row", "suggested", "drawn"]].itertuples(index=False):
        right = truth[row]
        if suggested == right != given[row]:
            decisions.append(Decision(int(row), "accept", drawn=drawn))
        elif given[row] == right:
            decisions.append(Decision(int(row), "reject", drawn=drawn))
        else:
            decisions.append(Decision(int(row), "correct", target=str(right), drawn=drawn))
    kinds = [decision.decision for decision in decisions]
    print(f"The expert looks at {BUDGET}: {kinds.count('accept')} suggestions accepted, ", end="")
    print(f"{kinds.count('reject')} rejected, {kinds.count('correct')} corrected.")

    reviews = Reviews("clinics", "", tuple(decisions))
    better_rows, better, now_trusted = reviews.apply(rows, given, trusted, issues)
    model.fit(better_rows, better, agents=clinic, trusted=now_trusted)
    print(f"Trained again from where it stood, with {int(now_trusted.sum())} trusted rows: AUC {auc():.3f}.")
    assert auc() > first - 0.02


if __name__ == "__main__":
    main()
