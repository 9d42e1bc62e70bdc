from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data, which is no part of the repository."""
    given = os.environ.get("COMT_DATA")
    folder = Path(given) if given else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real data are absent: {folder} is no folder; set COMT_DATA to the one that has them")
    return folder
