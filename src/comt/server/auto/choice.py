"""What the automatic choice found: a model, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from comt.preparation import KNEE, Preparation
from comt.problem import Array

#: trusted rows in all below which the choice is called undecided
UNDECIDED_BELOW = 10
#: an agent whose rows count less than this counts as set aside
NOTHING = 0.02
#: labels that follow the model so much less than those of the clearest agent are as good as drawn at random
AT_RANDOM, CLEAR = 0.25, 0.5
#: share of the model that a candidate must have to be told of
WORTH_TELLING = 1e-4


@dataclass(frozen=True)
class Line:
    """One candidate: what it is, its share in the final model, and its loss on trusted rows it was not fitted to."""

    candidate: str
    share: float
    #: mean held-out loss (regression) or minus the log evidence per trusted row (classification)
    loss: float


def largest_first(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return what a person wants to read: candidates of one name added up, the largest share first, the tiniest left out."""
    by_name: dict[str, list[Line]] = {}
    for line in lines:
        by_name.setdefault(line.candidate, []).append(line)
    added = [
        Line(name, share, sum(line.share * line.loss for line in same) / share)
        for name, same in by_name.items()
        if (share := sum(line.share for line in same)) > WORTH_TELLING
    ]
    return tuple(sorted(added, key=lambda line: -line.share))


def multiplied_by(factor: float) -> str:
    """Say what happens to targets that are multiplied."""
    if factor < 0:
        return "negated"
    return f"times {factor:.3g}" if factor >= 1 else f"divided by {1.0 / factor:.3g}"


@dataclass(frozen=True)
class Choice:
    """The chosen model in prepared units, with everything a person needs to believe or doubt it."""

    theta: Array
    preparation: Preparation
    lines: tuple[Line, ...]
    trusted_rows: int
    #: names of the agents and how far their rows are believed: 1 fully, 0 not at all, −1: labels reversed
    agents: tuple[str, ...]
    agent_weights: Array
    #: share of the model that was made of the rows of all agents alike, whatever their weights
    alike: float = 0.0
    #: how far rows count in any reading, such as with their targets negated; None: in no other than as they are
    in_any_reading: Array | None = None
    #: probability given to "the unverified rows are as they should be" (regression), NaN where it is not computed
    plain: float = np.nan
    #: flip rates found per agent (right label positive, negative); None for regression
    flip_rates: Array | None = None
    #: largest relative gradient among the fits that were averaged
    certificate: float = 0.0
    notes: tuple[str, ...] = field(default_factory=tuple)
    #: what a person should know before they rely on it
    caution: str = ""
    #: what there is to say where the choice was made another way (cross-validation of one objective)
    said: str = ""
    #: whether the trusted rows, however many, cannot decide: their labels are all of one class
    doubtful: bool = False

    @property
    def undecided(self) -> bool:
        """Whether there are too few trusted rows, or too much alike, to choose with confidence."""
        return self.doubtful or self.trusted_rows < UNDECIDED_BELOW

    @property
    def sentence(self) -> str:
        """Say what was chosen, and why, in one or two sentences."""
        if self.said:
            return self.said
        leading = [line for line in self.lines if line.share >= 0.1] or list(self.lines[:1])
        parts = ", ".join(f"{line.candidate} ({line.share:.0%})" for line in leading)
        said = f"The model is made of: {parts}; weighed by {self.trusted_rows} trusted rows."
        doubted = [f"{name} ({weight:.0%})" for name, weight in self.doubted_agents()]
        if doubted:
            said += f" Rows believed only in part: {', '.join(doubted)}."
        if at_random := self.at_random():
            said += f" Labels that follow the model hardly better than chance: {', '.join(at_random)}."
        if self.preparation.knee > KNEE and self.preparation.compressed:
            said += " Long tails count as they are: rows far out follow the straight line, too."
        if self.undecided:
            said += f" With fewer than {UNDECIDED_BELOW} trusted rows the choice is not certain: verify more rows."
        return f"{said} {self.caution}".rstrip()

    @property
    def belief(self) -> Array:
        """How far the rows of each agent are believed in the model as a whole: weights hold where agents are told apart."""
        return np.where(
            self.agent_weights < 0, self.agent_weights, self.alike + (1.0 - self.alike) * self.agent_weights
        )

    def doubted_agents(self, below: float = 0.5) -> list[tuple[str, float]]:
        """Return the agents whose rows contradict the trusted rows, with their belief (negative: labels reversed)."""
        pairs = zip(self.agents, self.belief.tolist(), strict=True)
        return [(name, weight) for name, weight in pairs if weight < below]

    def set_aside(self) -> list[str]:
        """Return the agents whose rows count next to nothing, however they are read."""
        counts = np.abs(self.belief)
        if self.in_any_reading is not None:
            counts = np.maximum(counts, self.in_any_reading)
        return [name for name, share in zip(self.agents, counts.tolist(), strict=True) if share < NOTHING]

    def reading(self, agent: str) -> str:
        """Say how the rows of an agent are read, where that is not simply as they are."""
        place = self.agents.index(agent)
        if agent in self.at_random():
            return "labels as good as random"
        if self.in_any_reading is not None and self.in_any_reading[place] > abs(self.belief[place]) + 0.5:
            return "targets in the sign or unit of other agents"
        if self.alike >= 0.5:
            return f"like those of all agents: {self.lines[0].candidate}"
        return ""

    def at_random(self) -> list[str]:
        """Return the agents whose labels hardly follow the model, where those of others do."""
        if self.flip_rates is None:
            return []
        # 1: every label follows, 0: right +1 and right −1 are labelled +1 as often, −1: every label is reversed
        follows = np.abs(1.0 - self.flip_rates.sum(axis=1))
        if follows.max() < CLEAR:
            return []
        return [name for name, share in zip(self.agents, follows.tolist(), strict=True) if share < AT_RANDOM]
