"""Telling people how a training goes: scikit-learn's callbacks, and a plain line per round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

Listener = Callable[[dict[str, float]], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have every round of the trainings in this block reported, as a record of numbers."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class RoundReporter:
    """Turns every round of a training into one task of scikit-learn's callbacks (and a printed line if asked to)."""

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self._estimator, self._X, self._y = estimator, X, y
        self._rounds = 0

    def __enter__(self) -> Self:
        self._active = bool(getattr(self._estimator, "_skl_callbacks", None))
        if self._active:
            self._fit = self._estimator._init_callback_context(max_subtasks=None)
            self._fit.call_on_fit_task_begin(estimator=self._estimator, X=self._X, y=self._y)
            self._round = self._begin()
        return self

    def _begin(self) -> Any:
        context = self._fit.subcontext(task_name="round")
        context.call_on_fit_task_begin(estimator=self._estimator, X=self._X, y=self._y)
        return context

    def round_done(self, record: dict[str, float]) -> None:
        """Report one round."""
        self._rounds += 1
        if (listener := _LISTENER.get()) is not None:
            listener(record)
        if self._active:
            self._round.call_on_fit_task_end(estimator=self._estimator, X=self._X, y=self._y)
            self._round = self._begin()
        if self._estimator.verbose:
            shown = "  ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in record.items())
            print(f"round {self._rounds}: {shown}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            self._round.call_on_fit_task_end(estimator=self._estimator)
            self._fit.call_on_fit_task_end(estimator=self._estimator, X=self._X, y=self._y)
