"""What a training from files was made of, so that it can be taken up again: files, options, and who it was before."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from comt.errors import InputError
from comt.writing import write_whole

FORMAT = "comt-run/1"
RUN, MODEL, ISSUES, LEDGER = "run.json", "model.json", "issues.csv", "ledger.csv"
REVIEWS, TRUSTED, CHANGES, REPORT, REVIEW = "reviews.json", "trusted.csv", "changes.csv", "report.html", "review.csv"


@dataclass(frozen=True)
class Source:
    """The files of one agent; the hashes tell whether they are still the same."""

    agent: str
    path: Path
    trusted_path: Path | None = None
    sha256: str = ""
    trusted_sha256: str = ""

    def check(self) -> None:
        """Refuse files that have changed: row numbers would no longer be those of the reviews."""
        for path, before in ((self.path, self.sha256), (self.trusted_path, self.trusted_sha256)):
            if path is not None and hashed(path) != before:
                raise InputError(
                    f"{path} has changed since the run was made, so its row numbers may be others; restore it, or fit anew."
                )


@dataclass(frozen=True)
class Plan:
    """What is to be trained on: everything that the command line says about the data."""

    sources: tuple[Source, ...]
    target: str
    trusted: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    min_count: int = 5
    task: str | None = None


@dataclass(frozen=True)
class Run:
    """A finished training: its plan, its identity and those of the runs it was resumed from."""

    plan: Plan
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    ancestors: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Write ``run.json``."""
        content = {"format": FORMAT, "id": self.id, "ancestors": list(self.ancestors), "plan": asdict(self.plan)}
        write_whole(folder / RUN, json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n", private=True)


def load_run(folder: Path) -> Run:
    """Read what :meth:`Run.save` wrote."""
    path = folder / RUN
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        plan = content["plan"]
        sources = tuple(
            Source(
                entry["agent"],
                Path(entry["path"]),
                None if entry["trusted_path"] is None else Path(entry["trusted_path"]),
                entry["sha256"],
                entry["trusted_sha256"],
            )
            for entry in plan["sources"]
        )
        known = Plan(
            sources=sources,
            target=plan["target"],
            trusted=plan["trusted"],
            drop=tuple(plan["drop"]),
            categorical=tuple(plan["categorical"]),
            min_count=int(plan["min_count"]),
            task=plan["task"],
        )
        return Run(known, content["id"], tuple(content["ancestors"]))
    except OSError as error:
        reason = str(error.strerror)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"damaged: {error}"
    raise InputError(f"{path} cannot be read ({reason}); give a folder that `comt fit` wrote.")


def hashed(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); put the file back, or fit anew.") from None
