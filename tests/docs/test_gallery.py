"""The examples run as they are, without a network, and say what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
WORDS = {
    "heart_disease": ["Made-up patients", "mixed-up diagnoses", "As plain scikit-learn"],
    "sensor_units": ["Rows that look wrong, by plant", "logged in psi"],
    "label_flips": ["The expert looks at 40", "Trained again"],
}


def test_every_example_is_listed():
    files = {path.stem for path in FOLDER.glob("*.py")}
    assert files == set(WORDS)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"{name}.py" in page for name in files)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORDS))
def test_the_example_runs(name, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "COMT_DATA"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in WORDS[name]:
        assert words in done.stdout
    assert not list(tmp_path.iterdir())  # nothing is left behind
