"""``python -m comt.bench.errata``: write the numbers of the errata page as JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from comt.bench import errata


def main(arguments: list[str] | None = None) -> None:
    """Write all numbers as JSON."""
    parser = argparse.ArgumentParser(description="Compute the numbers of the errata page.")
    parser.add_argument("--out", type=Path, default=Path("docs/explanation/errata_numbers.json"))
    out: Path = parser.parse_args(arguments).out
    out.write_text(json.dumps(errata.run_all(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
