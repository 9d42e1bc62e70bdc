"""Surveys among the data sets that automatic choice was not designed on: what people and schools reported.

They come with statsmodels, whose pages say who asked: California's schools in 1998, readers of a magazine in 1974, voters of
1996, travellers between three Australian cities, and families of the RAND health insurance experiment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comt.errors import MissingExtraError
from comt.problem import Array

if TYPE_CHECKING:
    import pandas as pd


def _survey(name: str) -> pd.DataFrame:
    try:
        from statsmodels import datasets
    except ImportError:
        raise MissingExtraError("these surveys come with statsmodels; install comt[bench].") from None
    answers: pd.DataFrame = getattr(datasets, name).load_pandas().data
    return answers


def _split(answers: pd.DataFrame, target: str) -> tuple[Array, Array]:
    others = answers.drop(columns=target)
    return others.to_numpy(dtype=np.float64), answers[target].to_numpy(dtype=np.float64)


def _labelled(answers: pd.DataFrame, positive: str) -> tuple[Array, Array]:
    features, found = _split(answers, positive)
    return features, np.where(found > 0, 1.0, -1.0)


def school_results() -> tuple[Array, Array]:
    """The share of pupils above the national median, from twenty columns, many of them products of others."""
    schools = _survey("star98")
    share = schools["NABOVE"] / (schools["NABOVE"] + schools["NBELOW"])
    return _split(schools.drop(columns=["NABOVE", "NBELOW"]).assign(share=share), "share")


def years_married() -> tuple[Array, Array]:
    """Seven values, from age, children and what else was asked; every second answer."""
    return _split(_survey("fair")[::2], "yrs_married")


def party_preference() -> tuple[Array, Array]:
    """From strong Democrat to strong Republican, 0 to 6."""
    return _split(_survey("anes96"), "PID")


def affairs() -> tuple[Array, Array]:
    """Whether there were any; every second answer, none that years of marriage have."""
    return _labelled(_survey("fair")[1::2], "affairs")


def votes() -> tuple[Array, Array]:
    """For Dole, not Clinton."""
    return _labelled(_survey("anes96"), "vote")


def journeys() -> tuple[Array, Array]:
    """The way to travel that was chosen out of four, from times, costs, income and the size of the party."""
    return _labelled(_survey("modechoice").drop(columns=["individual", "mode"]), "choice")


def income() -> tuple[Array, Array]:
    """Of voters, in 24 brackets, from what else they were asked."""
    return _split(_survey("anes96"), "income")


def visits() -> tuple[Array, Array]:
    """Whether a doctor was seen within a year, from insurance and health; every fifth answer."""
    return _labelled(_survey("randhie")[::5], "mdvis")


def schooling() -> tuple[Array, Array]:
    """Years at school, six values, from what else readers of the magazine were asked; every second answer."""
    return _split(_survey("fair")[::2], "educ")


def left_or_right() -> tuple[Array, Array]:
    """Where voters place themselves, 1 to 7."""
    return _split(_survey("anes96"), "selfLR")


def occupation() -> tuple[Array, Array]:
    """One that takes training, from what else was asked; every second answer, none that schooling has."""
    answers = _survey("fair")[1::2]
    return _labelled(answers.assign(occupation=answers["occupation"] > 3), "occupation")
