"""The pages promise that their code runs and that every dependency has its reason."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs" / "tutorial").glob("*.md"), *(ROOT / "docs" / "howto").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


def test_every_dependency_has_a_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    missing = [name for spec in wanted if (name := re.split(r"[>=<~!]", spec)[0]) not in text]
    assert not missing
