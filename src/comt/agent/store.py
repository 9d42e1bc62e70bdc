"""What a site remembers on disk of Algorithm 1: (α_k, q_k, round) and the round's answer, for its own eyes only."""

from __future__ import annotations

from pathlib import Path

from comt import wire
from comt.agent.private import write_private
from comt.agent.proximal import AdmmState
from comt.errors import ProtocolError
from comt.queries import Answer

_ARRAYS = ("alpha", "direction", "price")


class DiskStore(dict[str, object]):
    """An agent's store whose state of Algorithm 1 survives the process; it is on disk before its answer leaves.

    Parameters
    ----------
    folder:
        A folder of the site's own.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / "algorithm1.state"
        if self._path.exists():
            try:
                super().__setitem__("admm", _state(wire.unpack(self._path.read_bytes(), {})))
            except (ProtocolError, KeyError, TypeError):
                self._path.unlink()  # damaged: as good as none, the round will be refused by name

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, value)
        if isinstance(value, AdmmState):
            content = {
                "training": value.training,
                "round": value.round,
                **{field: getattr(value, field) for field in _ARRAYS},
                "arrays": value.answer.arrays,
                "rows": value.answer.rows,
            }
            write_private(self._path, wire.pack(content))


def _state(content: dict[str, object]) -> AdmmState:
    arrays, rows = content.pop("arrays"), content.pop("rows")
    return AdmmState(**content, answer=Answer(arrays, rows))  # type: ignore[arg-type]
