"""Models that choose themselves: candidates from sums over buggy rows, weighed and averaged by the trusted rows."""

from __future__ import annotations

from dataclasses import replace

from comt.federation.base import Federation
from comt.losses import LossName
from comt.preparation import Preparation
from comt.server.auto import classification, regression
from comt.server.auto.choice import Choice, Line

__all__ = ["Choice", "Line", "choose"]


def choose(federation: Federation, preparation: Preparation, loss_name: LossName) -> Choice:
    """Choose a model of the prepared rows of a federation; a row that was written again and again counts once."""
    task = regression.choose if loss_name == "squared" else classification.choose
    choice = task(federation, replace(preparation, distinct=True))
    return replace(choice, preparation=replace(choice.preparation, distinct=False))
