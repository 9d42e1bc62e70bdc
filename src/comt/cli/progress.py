"""The bar that shows how a training goes: rounds, the certificate on its way down, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from time import monotonic
from typing import Any

from comt.progress import listening

#: exchanges that automatic choice takes at most, as a rule
AUTOMATIC_ROUNDS = 60


class Descent:
    """How far a certificate has come from where it started to where it has to be, on a logarithmic scale.

    Examples
    --------
    >>> descent = Descent(tol=1e-8)
    >>> [round(descent.at(value), 2) for value in (1.0, 1e-2, 1e-6, 1e-3, 1e-9)]
    [0.0, 0.25, 0.75, 0.75, 1.0]
    """

    def __init__(self, tol: float) -> None:
        self._tol, self._first, self._share = tol, 0.0, 0.0

    def at(self, certificate: float) -> float:
        """Return the share of the way, which never goes back."""
        if not certificate > 0.0:
            return self._share
        self._first = max(self._first, certificate)
        if self._first > self._tol:
            way = log(self._first / certificate) / log(self._first / self._tol)
            self._share = min(1.0, max(self._share, way))
        return self._share


def time_left(elapsed: float, share: float) -> str:
    """Say how long it will take if it goes on like that; Newton's last steps are faster, so it is an upper bound."""
    if share <= 0.0:
        return "time left unknown"
    seconds = elapsed * (1.0 - share) / share
    return f"at most {seconds:.0f} s left" if seconds >= 1.0 else "almost done"


@contextmanager
def stage(text: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done and for how long, and give a function that says what is done now."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = _console()
    if not console.is_terminal:
        yield lambda now: None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(text)
        yield lambda now: progress.update(task, description=now)


@contextmanager
def training_bar(tol: float, text: str = "training") -> Iterator[None]:
    """Show a bar on the terminal's error stream while a training runs; nothing where there is no terminal."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = _console()
    if not console.is_terminal:
        yield
        return
    descent, start, rounds = Descent(tol), monotonic(), 0
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"{text}: agreeing on scales", total=1.0)

        def show(record: dict[str, Any]) -> None:
            nonlocal rounds
            rounds += 1
            if "certificate" in record:
                certificate = float(record["certificate"])
                share = descent.at(certificate)
                now = f"certificate {certificate:.0e} (to {tol:.0e})"
            else:  # automatic choice has no one certificate on its way down, but a known number of exchanges
                share = min(1.0, rounds / AUTOMATIC_ROUNDS)
                now = "the trusted rows are choosing"
            words = f"{text}: round {rounds}, {now}, {time_left(monotonic() - start, share)}"
            progress.update(task, completed=share, description=words)

        with listening(show):
            yield


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False)
