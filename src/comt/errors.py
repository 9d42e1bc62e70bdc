"""One tree of exceptions. Every message is one sentence: the value, what was expected, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ComtError(Exception):
    """Everything this package raises on purpose."""


class InputError(ComtError, ValueError):
    """The user's data or parameters cannot be used as they are; nothing has been started or written."""


class ConvergenceError(ComtError, RuntimeError):
    """A solver stopped short of its tolerance.

    ``certificate`` says how short: the relative norm of the gradient that should have vanished. ``history`` holds what
    was recorded on the way.
    """

    def __init__(
        self,
        message: str,
        *,
        certificate: float = float("nan"),
        history: Sequence[Mapping[str, float]] = (),
    ) -> None:
        super().__init__(message)
        self.certificate = certificate
        self.history = list(history)


class CraftingError(ConvergenceError):
    """``lambda_z`` is so small that the teaching problem has no (unique) solution."""


class GateError(ComtError, PermissionError):
    """The data holder's gate refused to let an answer out."""


class RefusedError(GateError):
    """Sites refused one question by their owners' policies; they still take part in others."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        told = "; ".join(f"site {site} {reason}" for site, reason in sorted(self.reasons.items()))
        super().__init__(f"{told}; ask for something else, or have the owners allow it.")


class ProtocolError(ComtError, RuntimeError):
    """A query or an answer does not have the shape, size or round that the vocabulary prescribes."""


class FederationError(ComtError, RuntimeError):
    """A training across machines cannot go on: too few sites, no coordinator, a deadline that has passed."""


class SiteLeftError(FederationError):
    """Sites left a training (they were silent, refused, or answered something else); the others can start again."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        told = "; ".join(f"site {site} {reason}" for site, reason in sorted(self.reasons.items()))
        super().__init__(f"{told}; train again without, or repair and resume.")


class RangeError(ComtError, OverflowError):
    """A number does not fit the fixed-point scale of its array; the array is named so that the scale can be changed."""

    def __init__(self, message: str, *, array: str) -> None:
        super().__init__(message)
        self.array = array


class DropoutError(ProtocolError):
    """So many sites fell silent that a masked sum cannot be unmasked; nothing of the round can be read by anybody."""


class EquivocationError(ProtocolError):
    """The coordinator told different sites different things."""


class MissingExtraError(ComtError, ImportError):
    """An optional dependency is needed for what was asked; the message names the extra to install."""


class SelectionWarning(UserWarning):
    """The paper's selection rule keeps the rows that fit worst (erratum E13)."""


class SparsityWarning(UserWarning):
    """λ_α is so large that hardly any row takes part in the training."""


class NoTrustedRowsWarning(UserWarning):
    """No row is trusted, or too few are, so automatic choice has nothing to choose by."""


class IgnoredParameterWarning(UserWarning):
    """A parameter was given that the chosen teaching has no use for."""
