"""A federation as everybody in it knows it: a small TOML file in every kit."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from comt.errors import InputError
from comt.writing import write_whole

FEDERATION = "federation.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Description:
    """A federation as everybody in it knows it."""

    name: str
    address: str
    port: int
    sites: tuple[str, ...] = ()
    #: the feature columns that all sites must have; None: those of the first site that joins
    columns: tuple[str, ...] | None = None

    def check(self) -> None:
        """Refuse names that do not fit a certificate or a folder."""
        for what, name in (("--name", self.name), *(("--sites", site) for site in self.sites)):
            if not _NAME.fullmatch(name):
                raise InputError(f"{what} {name!r} is not a name; use letters, digits and hyphens, at most 63.")
        lowered = [site.lower() for site in self.sites]
        if len(set(lowered)) < len(lowered) or {"coordinator", "operator", "server"} & set(lowered):
            raise InputError(
                "--sites must name every site once, and none 'coordinator', 'operator' or 'server'; rename."
            )
        if not _HOST.fullmatch(self.address):
            raise InputError(f"--address {self.address!r} is no host name or IP address; give the coordinator's.")
        if not 1 <= self.port <= 65_535:
            raise InputError(f"--port {self.port} is no port; give a number from 1 to 65535 that sites can reach.")

    def save(self, folder: Path) -> None:
        """Write ``federation.toml`` into a folder."""
        lines = [
            "# The federation, as its coordinator and all its sites know it.",
            f"name = {json.dumps(self.name)}",
            f"address = {json.dumps(self.address)}",
            f"port = {self.port}",
        ]
        if self.sites:
            lines.append(f"sites = {json.dumps(list(self.sites))}")
        if self.columns is not None:
            lines.append(f"columns = {json.dumps(list(self.columns), ensure_ascii=False)}")
        write_whole(folder / FEDERATION, "\n".join(lines) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Description:
        """Read ``federation.toml`` of a folder."""
        path = folder / FEDERATION
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
            columns = content.get("columns")
            return cls(
                content["name"],
                content["address"],
                content["port"],
                tuple(content.get("sites", ())),
                None if columns is None else tuple(columns),
            )
        except OSError:
            raise InputError(f"{folder} holds no {FEDERATION}; give the folder of a federation or of a kit.") from None
        except (tomllib.TOMLDecodeError, KeyError, UnicodeDecodeError):
            raise InputError(f"{path} is damaged; take it from the federation's folder again.") from None
