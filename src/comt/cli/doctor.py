"""``comt doctor``: is a kit ready to start? One sentence per check, and what to do where it is not."""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ENGINE_VERSION = "2.9.0"
#: seconds for the connection to the coordinator
CONNECT = 10.0
#: what a training writes at most by far: results, logs, the state of Algorithm 1
FREE_BYTES = 500 * 2**20
#: how an HTTP/2 client begins; whoever gets an answer to it has been let in
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="check a site's (or the coordinator's) kit before the start",
        description="Check certificate, clock, software, disk, data and connection of a kit; one sentence per check.",
    )
    parser.add_argument("kit", type=Path, metavar="KIT", help="a site's kit, or the coordinator's")
    parser.add_argument("--json", action="store_true", help="print one machine-readable object instead of sentences")
    parser.set_defaults(run=run)


class Problem(Exception):
    """A check that failed, with the sentence to show."""


def run(options: argparse.Namespace) -> int:
    """Run every check; later ones also where earlier ones failed."""
    from comt.errors import ComtError
    from comt.federation.flare import hardening
    from comt.federation.flare.extra import need_engine

    need_engine()
    coordinator = hardening.is_coordinator(options.kit)
    if not coordinator:
        hardening.site_name(options.kit)  # refuses what is no kit
    found: list[dict[str, Any]] = []
    for name, check in _checks(options.kit, coordinator):
        try:
            found.append({"check": name, "ok": True, "message": check()})
        except (Problem, ComtError) as problem:
            found.append({"check": name, "ok": False, "message": " ".join(str(problem).split())})
    if options.json:
        print(json.dumps(found))
    else:
        for item in found:
            print(f"{'ok     ' if item['ok'] else 'PROBLEM'}  {item['check']}: {item['message']}")
    return 0 if all(item["ok"] for item in found) else 1


def _checks(kit: Path, coordinator: bool) -> Iterator[tuple[str, Callable[[], str]]]:
    who = "server" if coordinator else "client"
    yield "software", _software
    yield "certificate", lambda: _certificate(kit, who)
    yield "clock", lambda: _clock(kit, who)
    yield "disk", lambda: _disk(kit)
    if coordinator:
        yield "port", lambda: _port(kit)
        return
    yield "data", lambda: _data(kit)
    yield "schema", lambda: _schema(kit)
    yield "policy", lambda: _policy(kit)
    yield "connection", lambda: _connection(kit)


def _software() -> str:
    from importlib.metadata import version

    from comt import __version__

    engine = version("nvflare")
    if engine != ENGINE_VERSION:
        raise Problem(
            f"NVIDIA FLARE {engine} is installed where {ENGINE_VERSION} is needed; pip install 'comt[federated]'."
        )
    return f"comt {__version__} and NVIDIA FLARE {engine}; all sites and the coordinator need these."


def _load(kit: Path, who: str) -> tuple[Any, Any]:
    from cryptography import x509

    try:
        own = x509.load_pem_x509_certificate((kit / "startup" / f"{who}.crt").read_bytes())
        root = x509.load_pem_x509_certificate((kit / "startup" / "rootCA.pem").read_bytes())
    except (OSError, ValueError):
        raise Problem("the certificates cannot be read; ask the coordinator for the kit again.") from None
    return own, root


def _certificate(kit: Path, who: str) -> str:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import NameOID

    own, root = _load(kit, who)
    path = kit / "startup" / f"{who}.key"
    try:
        own.verify_directly_issued_by(root)
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, InvalidSignature, OSError):
        raise Problem(
            "the certificate was not issued by the federation, or its key is missing; ask for the kit again."
        ) from None
    if key.public_key() != own.public_key():
        raise Problem("the key is not that of the certificate; ask the coordinator for the kit again.")
    if path.stat().st_mode & 0o077:
        raise Problem(f"{path} can be read by others; run chmod 600 on it.")
    (name,) = own.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return f"issued by the federation for '{name.value}', and the key is private."


def _clock(kit: Path, who: str) -> str:
    now = datetime.now(UTC)
    for certificate in _load(kit, who):
        if now < certificate.not_valid_before_utc:
            raise Problem(
                f"it is {now:%Y-%m-%d %H:%M} UTC here, before the certificate begins; set this machine's clock."
            )
        if now > certificate.not_valid_after_utc:
            raise Problem("the certificate has expired (or this machine's clock is wrong); ask for a new kit.")
    until = min(certificate.not_valid_after_utc for certificate in _load(kit, who))
    soon = " (soon: ask for a new kit)" if until - now < timedelta(days=14) else ""
    return f"{now:%Y-%m-%d %H:%M} UTC, and the certificate holds until {until:%Y-%m-%d}{soon}."


def _disk(kit: Path) -> str:
    free = shutil.disk_usage(kit).free
    if free < FREE_BYTES:
        raise Problem(f"{free / 2**20:,.0f} MB are free where {FREE_BYTES / 2**20:,.0f} MB are wanted; make room.")
    return f"{free / 2**30:,.1f} GB are free."


def _settings(kit: Path) -> Any:
    from comt.agent.site_config import FILE, SiteConfig

    return SiteConfig.load(kit / "local" / FILE)


def _data(kit: Path) -> str:
    from comt.agent.private import private_folder
    from comt.agent.site_service import open_rows

    config = _settings(kit)
    rows = open_rows(config)
    try:
        private_folder(config.results)
    except OSError as error:
        raise Problem(
            f"{config.results} cannot be created ({error.strerror}); configure another results folder."
        ) from None
    return f"{config.data.name} has {rows.n_rows:,} rows and {rows.n_trusted:,} verified ones, all readable."


def _schema(kit: Path) -> str:
    from comt.agent.site_service import open_rows
    from comt.federation.flare.description import Description

    wanted = Description.load(kit).columns
    own = open_rows(_settings(kit)).names
    if wanted is None:
        return f"{len(own)} feature columns; the federation fixes none, so they must be those of the first site that joins."
    differing = sorted(set(own) ^ set(wanted))
    if differing:
        raise Problem(
            f"columns differ from the federation's in {', '.join(differing[:10])}; rename, add or --drop them."
        )
    return f"the {len(own)} feature columns are the federation's."


def _policy(kit: Path) -> str:
    from comt.agent.site_service import open_rows

    config = _settings(kit)
    policy = config.gate_policy()
    rows = open_rows(config)
    for what, count in (("rows", rows.n_rows), ("verified rows", rows.n_trusted)):
        if not policy.masked and 0 < count < policy.min_rows:
            raise Problem(
                f"there are {count} {what} where min_rows = {policy.min_rows}, so every answer would be refused."
            )
    how = "only under masks, " if policy.masked else ""
    return f"sums leave this site {how}over at least {policy.min_rows} rows."


def _connection(kit: Path) -> str:
    from comt.federation.flare.description import Description

    federation = Description.load(kit)
    where = f"{federation.address}:{federation.port}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the root certificate is the federation's own
    context.set_alpn_protocols(["h2"])
    startup = kit / "startup"
    try:
        context.load_verify_locations(startup / "rootCA.pem")
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    except (OSError, ssl.SSLError):
        raise Problem(
            "certificate and key cannot be used for a connection; ask the coordinator for the kit again."
        ) from None
    try:
        with (
            socket.create_connection((federation.address, federation.port), timeout=CONNECT) as plain,
            context.wrap_socket(plain, server_hostname=federation.address) as secure,
        ):
            secure.sendall(_HELLO)
            if not secure.recv(1):
                raise Problem(f"{where} closed the connection; ask the coordinator whether this site is still welcome.")
    except ssl.SSLCertVerificationError:
        raise Problem(f"{where} has a certificate of another federation; check the address.") from None
    except ssl.SSLError:
        raise Problem(f"{where} refused this site's certificate; ask the coordinator for a new kit.") from None
    except OSError as error:
        reason = error.strerror or "no answer"
        raise Problem(
            f"{where} cannot be reached ({reason}); ask whether the coordinator runs, and IT to open it."
        ) from None
    return f"{where} answers, both certificates are accepted."


def _port(kit: Path) -> str:
    from comt.federation.flare.description import Description

    federation = Description.load(kit)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", federation.port))
        except OSError:
            return f"{federation.port} is in use: the coordinator runs already, or something else does."
    return f"{federation.port} is free; sites must be able to reach {federation.address}:{federation.port}."
