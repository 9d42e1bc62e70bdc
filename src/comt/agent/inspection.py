"""Which rows to look at when there is time for a few: mostly the worst, a quarter drawn at random."""

from __future__ import annotations

import numpy as np
import pandas as pd

from comt.errors import InputError

#: of every this many lines, one is drawn at random
EVERY = 4


def inspect_first(table: pd.DataFrame, budget: int = 40, seed: int = 0) -> pd.DataFrame:
    """Return ``budget`` lines of one agent's issue table to look at first, with ``drawn``: "worst" or "random".

    The random quarter is drawn before the worst are taken, from all lines alike: it is a fair sample of the agent's
    unverified rows, so that what is learnt from it may be used to score models, which is not true of the worst. Every
    fourth line is a random one, so that whoever stops early has a fair share of both.

    Examples
    --------
    >>> table = pd.DataFrame({"row": range(100), "score": np.linspace(1, 0, 100)})
    >>> inspect_first(table, budget=8)["drawn"].value_counts().to_dict()
    {'worst': 6, 'random': 2}
    """
    if budget < 1:
        raise InputError(f"an inspection budget of {budget} rows is not positive; give for example 40.")
    size = min(budget, len(table))
    by_score = np.argsort(-table["score"].to_numpy(dtype=np.float64), kind="stable")
    random = np.random.default_rng(seed).choice(len(table), size=size // EVERY, replace=False)
    worst = by_score[~np.isin(by_score, random)][: size - len(random)]
    is_random = np.arange(size) % EVERY == EVERY - 1
    order = np.empty(size, dtype=np.intp)
    order[is_random], order[~is_random] = random, worst
    drawn = np.where(is_random, "random", "worst")
    return table.iloc[order].assign(drawn=drawn).reset_index(drop=True)
