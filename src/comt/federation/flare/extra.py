"""The engine is an optional dependency: say so in one sentence where it is missing, and set it up where it runs."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from comt.errors import MissingExtraError

#: arrays and bytes travel inside the message; replies leave no timers behind for a minute; one BLAS thread per process
ENGINE_SETTINGS = {
    "NVFLARE_NP_DOWNLOAD_CHUNK_SIZE": "0",
    "NVFLARE_STREAMING_RETRY_TIMEOUT": "1",
    "NVFLARE_STREAMING_RETRY_WAIT": "0.5",
    "OPENBLAS_NUM_THREADS": "1",
}


def need_engine() -> None:
    """Refuse to go on without the engine."""
    if importlib.util.find_spec("nvflare") is None:
        raise MissingExtraError(
            "training across machines needs NVIDIA FLARE; install it with pip install 'comt[federated]'."
        )


def engine_environment() -> dict[str, str]:
    """Return the environment of the engine's processes: this Python first, settings that the operator did not choose."""
    here = str(Path(sys.executable).parent)
    environment = {**ENGINE_SETTINGS, **os.environ}
    environment["PATH"] = os.pathsep.join([here, os.environ.get("PATH", "")])
    return environment
