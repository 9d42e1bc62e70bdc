"""The site's own settings, a small TOML file that never leaves it: where its data are, and what may be told about them."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comt.agent.policy import Policy, parse_policy
from comt.agent.private import write_private
from comt.errors import InputError

FILE = "site.toml"


@dataclass(frozen=True)
class SiteConfig:
    """What a data holder decides, and nobody else."""

    data: Path
    target: str
    trusted: str | None = None
    drop: tuple[str, ...] = ()
    #: where the issue tables, the ledger and the site's log are written
    results: Path = Path("results")
    policy: dict[str, Any] = field(default_factory=dict)
    #: columns of numbers that are codes of categories
    categorical: tuple[str, ...] = ()

    def gate_policy(self) -> Policy:
        """Return the policy for the gate; what the table does not name is protective."""
        return parse_policy(self.policy, FILE)

    @classmethod
    def load(cls, path: Path) -> SiteConfig:
        """Read the file; relative paths are relative to it."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path} does not exist; write it with `comt site configure`.") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path} cannot be read ({error}); correct it or run `comt site configure`.") from None
        data = content.pop("data", None)
        results = content.pop("results", {"folder": "../results"})
        policy = content.pop("policy", {})
        if content or not all(isinstance(part, dict) for part in (data, results, policy)):
            raise InputError(f"{path} must hold [data], [results] and [policy] only; run `comt site configure`.")
        try:
            return cls(
                data=_path(path, data.pop("file")),
                target=_text(data.pop("target")),
                trusted=_text(data.pop("trusted")) if "trusted" in data else None,
                drop=tuple(_text(name) for name in data.pop("drop", [])),
                categorical=tuple(_text(name) for name in data.pop("categorical", [])),
                results=_path(path, results.pop("folder")),
                policy=policy,
            )._nothing_else({**data, **results})
        except KeyError as error:
            raise InputError(f"{path} does not say {error}; add it, or run `comt site configure`.") from None
        except TypeError as error:
            raise InputError(f"{path}: {error}; correct it, or run `comt site configure`.") from None

    def _nothing_else(self, left: dict[str, Any]) -> SiteConfig:
        if left:
            raise TypeError(f"{', '.join(sorted(left))} is not a setting")
        self.gate_policy()
        return self

    def save(self, path: Path) -> None:
        """Write the file for its owner's eyes, with a comment per part."""
        trusted = (
            [f"trusted = {_quoted(self.trusted)}   # true (or 1) in rows that an expert verified"]
            if self.trusted
            else []
        )
        drop = [f"drop = [{', '.join(map(_quoted, self.drop))}]   # columns that are no features"] if self.drop else []
        codes = ", ".join(map(_quoted, self.categorical))
        categorical = [f"categorical = [{codes}]   # columns of numbers that are codes"] if codes else []
        lines = [
            "# This file belongs to the site. It is read here only; the coordinator can neither see nor change it.",
            "[data]",
            f"file = {_quoted(str(self.data))}",
            f"target = {_quoted(self.target)}",
            *trusted,
            *drop,
            *categorical,
            "",
            "[results]   # issue tables, the ledger of what left, the site's log: private",
            f"folder = {_quoted(str(self.results))}",
            "",
            "[policy]   # what may leave, beyond the protective defaults; see the page 'Limit what leaves an agent'",
            *(f"{name} = {_literal(value)}" for name, value in self.policy.items()),
        ]
        write_private(path, ("\n".join(lines) + "\n").encode())


def _path(file: Path, given: Any) -> Path:
    return (file.parent / _text(given)).resolve()


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is not text")
    return value


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal(value: Any) -> str:
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"[{', '.join(_literal(item) for item in sorted(value))}]"
    return json.dumps(value, ensure_ascii=False)
