"""What every corruption is: a change of clean rows whose every trace is recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comt.datasets._types import Array, Indices, Mask, Task
from comt.errors import InputError

BOTH: frozenset[Task] = frozenset({"regression", "classification"})
REGRESSION: frozenset[Task] = frozenset({"regression"})
CLASSIFICATION: frozenset[Task] = frozenset({"classification"})


@dataclass
class Draft:
    """Copies of all agents' rows, which corruptions may overwrite."""

    features: list[Array]
    targets: list[Array]
    task: Task
    malicious: int | None = None


@dataclass(frozen=True, eq=False)
class CorruptedRows:
    """All agents' rows after a corruption, and exactly what differs from the clean ones."""

    features: tuple[Array, ...]
    targets: tuple[Array, ...]
    wrong_cells: tuple[Mask, ...]
    wrong_targets: tuple[Mask, ...]
    malicious: int | None

    @property
    def wrong_rows(self) -> tuple[Mask, ...]:
        """Return, per agent, the rows with a wrong cell or a wrong target."""
        return tuple(c.any(axis=1) | t for c, t in zip(self.wrong_cells, self.wrong_targets, strict=True))


class Corruption(ABC):
    """A callable from clean rows to buggy ones; parameters are the fields of the concrete dataclass."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Say in one line what goes wrong, with the parameters in it."""

    @property
    def tasks(self) -> frozenset[Task]:
        """Return the tasks whose targets the corruption understands."""
        return BOTH

    @abstractmethod
    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Overwrite the draft."""

    def __call__(self, rows: Sequence[tuple[Array, Array]], task: Task, rng: np.random.Generator) -> CorruptedRows:
        """Corrupt ``rows``, one pair of features and targets per agent, and leave them as they are."""
        if task not in self.tasks:
            raise InputError(
                f"the task is {task}, but {type(self).__name__} ({self.description}) is for "
                f"{' and '.join(sorted(self.tasks))}; choose another corruption."
            )
        draft = Draft([x.copy() for x, _ in rows], [y.copy() for _, y in rows], task)
        self.change(draft, rng)
        # Compared, not bookkept: a code written over a cell that already held it is not an error.
        return CorruptedRows(
            features=tuple(draft.features),
            targets=tuple(draft.targets),
            wrong_cells=tuple(new != old for new, (old, _) in zip(draft.features, rows, strict=True)),
            wrong_targets=tuple(new != old for new, (_, old) in zip(draft.targets, rows, strict=True)),
            malicious=draft.malicious,
        )


@dataclass(frozen=True)
class Clean(Corruption):
    """Nothing goes wrong: the control."""

    @property
    def description(self) -> str:
        """Say what goes wrong."""
        return "nothing changed"

    def change(self, draft: Draft, rng: np.random.Generator) -> None:
        """Leave the draft alone."""


def require_share(what: str, value: float) -> None:
    """Refuse a share outside [0, 1]."""
    if not 0 <= value <= 1:
        raise InputError(f"{what} is {value}; give a share from 0 to 1.")


def draw_rows(n: int, fraction: float, rng: np.random.Generator) -> Indices:
    """Draw exactly ``round(fraction * n)`` of ``n`` rows."""
    return rng.permutation(n)[: round(fraction * n)]


def pick(what: str, index: int | None, n: int, rng: np.random.Generator) -> int:
    """Return ``index``, or one of ``n`` at random if it is None."""
    if index is None:
        return int(rng.integers(n))
    if not 0 <= index < n:
        raise InputError(f"{what} is {index}, but there are {n}; give an index from 0 to {n - 1}.")
    return index


def draw_agents(agents: int | tuple[int, ...], n_agents: int, rng: np.random.Generator) -> list[int]:
    """Return the agents named, or that many at random."""
    if isinstance(agents, tuple):
        return [pick("an agent", k, n_agents, rng) for k in agents]
    if not 0 <= agents <= n_agents:
        raise InputError(f"{agents} wrong agents are asked for, but there are {n_agents}; ask for fewer.")
    return [int(k) for k in rng.permutation(n_agents)[:agents]]
