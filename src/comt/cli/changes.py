"""What a review changed: coefficients, the score on rows left out, which rows look wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from comt.agent.tables import Verdict
    from comt.cli.training import Trained
    from comt.model_file import TaughtModel


@dataclass(frozen=True)
class Changes:
    """Coefficients before and after (for everybody); per agent the rows whose flag changed (for its owner)."""

    coefficients: pd.DataFrame
    rows: dict[str, pd.DataFrame]
    score_before: float | None
    score_after: float | None
    reviewed: dict[str, int]

    def counts(self, agent: str) -> dict[str, int]:
        """Return how many rows of an agent are flagged now and were not, and the other way round."""
        change = self.rows[agent]["change"]
        return {name: int((change == name).sum()) for name in ("newly flagged", "no longer flagged", "reviewed")}


def compare(
    before: TaughtModel,
    issues: Mapping[str, pd.DataFrame],
    trained: Trained,
    verdicts: Mapping[str, Mapping[int, Verdict]],
) -> Changes:
    """Compare a training with the one it was resumed from."""
    coef = np.ravel(trained.model.coef_)
    coefficients = pd.DataFrame(
        {
            "feature": [*trained.schema.features, "(intercept)"],
            "before": [*before.coef.tolist(), before.intercept],
            "after": [*coef.tolist(), float(np.ravel(trained.model.intercept_)[0])],
        }
    )
    rows = {}
    for agent, earlier in issues.items():
        now = trained.issues[trained.issues["agent"] == agent]
        rows[agent] = _rows(earlier, now, set(verdicts.get(agent, {})))
    scored: dict[str, Any] = before.provenance.get("held_out_trusted_rows") or {}
    return Changes(
        coefficients,
        rows,
        score_before=scored.get("score"),
        score_after=None if trained.held_out is None else trained.held_out.score,
        reviewed={agent: len(decided) for agent, decided in verdicts.items()},
    )


def _rows(before: pd.DataFrame, after: pd.DataFrame, reviewed: set[int]) -> pd.DataFrame:
    """Return the rows that were reviewed or whose flag changed, with their scores before and after."""
    earlier, now = (table.set_index("row")[["score", "flagged"]] for table in (before, after))
    both = earlier.add_suffix(" before").join(now.add_suffix(" after"), how="left")
    was, is_now = both["flagged before"].astype(bool), both["flagged after"].eq(True)
    change = pd.Series("", index=both.index)
    change[was & ~is_now] = "no longer flagged"
    change[~was & is_now] = "newly flagged"
    change[both.index.isin(list(reviewed))] = "reviewed"
    table = both[["score before", "score after"]].assign(change=change)[change != ""]
    return table.reset_index().sort_values("row", ignore_index=True)
