"""The coordinator's object in the engine, NVIDIA FLARE: one training per job, its folder in the coordinator's own kit."""

from __future__ import annotations

import re
from pathlib import Path

from nvflare.collab import collab

from comt.errors import ProtocolError
from comt.federation.flare.transport import CollabTransport
from comt.server.coordinator import TRAININGS, Request, coordinate


class FlareCoordinator:
    """Runs the training that its folder describes, from its checkpoint on if there is one.

    Parameters
    ----------
    training:
        Name of the training and of its folder.
    """

    def __init__(self, training: str) -> None:
        self.training = training

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Coordinate; what came out stands in the training's folder."""
        if not re.fullmatch(r"[0-9a-f]{8,64}", self.training):
            raise ProtocolError(f"training {self.training!a} is not a name of ours; submit it with `comt train`.")
        folder = Path(collab.workspace.get_root_dir()) / TRAININGS / self.training
        coordinate(CollabTransport(), Request.load(folder), folder)
