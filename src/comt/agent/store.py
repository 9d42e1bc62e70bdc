"""What a site remembers on disk of Algorithm 1: (α_k, q_k, round) and the round's answer, for its own eyes only."""

from __future__ import annotations

from pathlib import Path

from comt import wire
from comt.agent.private import write_private
from comt.agent.proximal import AdmmState
from comt.errors import ProtocolError
from comt.masking.receipts import Receipt
from comt.optimize.algorithm1 import State
from comt.queries import Answer

_ARRAYS = ("alpha", "direction", "price")


class DiskStore(dict[str, object]):
    """An agent's store whose part in Algorithm 1 survives the process; it is on disk before its answer leaves.

    Parameters
    ----------
    folder:
        A folder of the site's own.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._paths = {"admm": folder / "algorithm1.state", "receipt": folder / "algorithm1.receipt"}
        for name, path in self._paths.items():
            if path.exists():
                try:
                    content = wire.unpack(path.read_bytes(), {})
                    super().__setitem__(name, _state(content) if name == "admm" else Receipt(**content))
                except (ProtocolError, KeyError, TypeError):
                    path.unlink()  # damaged: as good as none, the round will be refused by name

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, value)
        if isinstance(value, AdmmState):
            content = {
                "training": value.training,
                "round": value.round,
                **{field: getattr(value, field) for field in _ARRAYS},
                "arrays": value.answer.arrays,
                "rows": value.answer.rows,
                "constants": value.constants,
                "public": None if value.public is None else vars(value.public),
            }
            write_private(self._paths[name], wire.pack(content))
        elif isinstance(value, Receipt):
            write_private(self._paths[name], wire.pack(vars(value)))

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if name in self._paths:
            self._paths[name].unlink(missing_ok=True)


def _state(content: dict[str, object]) -> AdmmState:
    arrays, rows, public = content.pop("arrays"), content.pop("rows"), content.pop("public")
    state = None if public is None else State(**public)  # type: ignore[arg-type]
    return AdmmState(**content, answer=Answer(arrays, rows), public=state)  # type: ignore[arg-type]
