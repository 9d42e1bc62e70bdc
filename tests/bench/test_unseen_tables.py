"""Data sets of the unseen cells: what experiments need of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from comt.bench import unseen, unseen_surveys
from comt.bench.unseen_errors import GROUPS
from comt.bench.unseen_later_errors import ELEVENTH, THIRTEENTH, TWELFTH
from comt.bench.unseen_tables import table
from comt.errors import MissingExtraError


@pytest.mark.parametrize("name", [*ELEVENTH, *TWELFTH, *THIRTEENTH])
def test_tables_are_numbers_of_which_a_linear_model_tells_something(name):
    survey = table(name)
    assert np.isfinite(survey.features).all()
    # pixels at the edge are always white
    assert (np.ptp(survey.features, axis=0) > 0).mean() > 0.75
    assert len(survey.targets) > 2.5 * max(unseen.TRUSTED)
    assert (name in unseen.LABELLED) == (survey.task == "classification")
    assert LinearRegression().fit(survey.features, survey.targets).score(survey.features, survey.targets) > 0.05


def test_two_surveys_share_no_answer():
    """Years of marriage and affairs stem from one file, and are different people."""
    (married, years), (asked, _) = unseen_surveys.years_married(), unseen_surveys.affairs()
    assert abs(len(married) - len(asked)) <= 1
    assert len(married) + len(asked) == 6366
    assert len(years) == len(married)


def test_no_data_set_is_in_two_groups():
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names))


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    with pytest.raises(MissingExtraError, match=r"install comt\[bench\]\.$"):
        unseen_surveys.votes()
