"""Start-up kits: one folder per participant with its certificate, its key and where the coordinator is.

Two ways. *Central*: the coordinator makes all keys and hands every site its kit. *Distributed*: every site makes its own key,
which never leaves it, and sends a request; the coordinator approves; the site packs its kit.
Either way the kit is hardened before anybody uses it: no code travels with a job, two classes may run, the operator
has no shell at a site, and no log is streamed away from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from comt.errors import FederationError, InputError
from comt.federation.flare.description import FEDERATION, Description
from comt.federation.flare.extra import engine_environment, need_engine
from comt.federation.flare.hardening import harden

OPERATOR = "operator@comt.local"
ORGANISATION = "comt"
_STEP_SECONDS = 120


def create_central(federation: Description, folder: Path) -> None:
    """Make all keys and kits: ``coordinator``, ``operator`` and ``sites/<name>``, ready to be handed out."""
    need_engine()
    federation.check()
    with _draft(folder) as draft, tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        _write_yaml(work / "project.yml", _project(federation))
        _engine("provision", "-p", str(work / "project.yml"), "-w", str(work / "ws"), "--force")
        made = work / "ws" / federation.name
        kits = made / "prod_00"
        places = {"coordinator": "coordinator", OPERATOR: "operator", **{s: f"sites/{s}" for s in federation.sites}}
        (draft / "sites").mkdir()
        for participant, place in places.items():
            _finish(kits / participant, draft / place, federation, participant)
        (draft / "keys").mkdir(mode=0o700)
        shutil.move(made / "state" / "cert.json", draft / "keys" / "cert.json")
        (draft / "keys" / "cert.json").chmod(0o600)
        federation.save(draft)


def create_distributed(federation: Description, folder: Path) -> str:
    """Make the coordinator's own keys and kits; sites bring requests. Returns the fingerprint that sites should check."""
    need_engine()
    federation.check()
    with _draft(folder) as draft:
        _write_yaml(draft / "profile.yml", _profile(federation))
        _engine("cert", "init", "--profile", str(draft / "profile.yml"), "-o", str(draft / "keys"))
        (draft / "keys").chmod(0o700)
        federation.save(draft)
        coordinator: dict[str, Any] = {"type": "server", "default_host": federation.address}
        coordinator |= {"fed_learn_port": federation.port, "admin_port": federation.port}
        for name, place, more in (
            (federation.address, "coordinator", coordinator),
            (OPERATOR, "operator", {"type": "admin", "role": "lead"}),
        ):
            with tempfile.TemporaryDirectory() as scratch:
                request = _request(federation.name, name, more, Path(scratch) / "request")
                approved = approve(draft, request, Path(scratch) / "approved.zip")
                package(approved, request.parent, fingerprint(draft), draft / place)
        return fingerprint(draft)


def fingerprint(federation: Path) -> str:
    """Return the SHA-256 fingerprint of the federation's root certificate."""
    return certificate_fingerprint(federation / "keys" / "rootCA.pem")


def certificate_fingerprint(path: Path) -> str:
    """Return the SHA-256 fingerprint of a certificate, in pairs of digits."""
    import ssl

    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(path.read_text(encoding="ascii"))).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, 64, 2))


def request(federation_name: str, site: str, folder: Path) -> Path:
    """At a site: make a key that stays, and a request to send to the coordinator."""
    need_engine()
    Description(federation_name, "localhost", 1, (site,)).check()
    if folder.exists():
        raise InputError(f"{folder} exists already; give a new folder for the key and the request.")
    return _request(federation_name, site, {"type": "client"}, folder)


def _request(federation_name: str, name: str, more: dict[str, Any], folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        participant = {"name": name, "org": ORGANISATION, **more}
        _write_yaml(Path(scratch) / "p.yml", {"name": federation_name, "participants": [participant]})
        _engine("cert", "request", "-p", str(Path(scratch) / "p.yml"), "--out", str(folder))
    folder.chmod(0o700)
    (made,) = folder.glob("*.zip")
    return made


def approve(federation: Path, request_file: Path, out: Path) -> Path:
    """At the coordinator: sign a request. The answer holds certificates and the federation's description, no key."""
    need_engine()
    if not zipfile.is_zipfile(request_file):
        raise InputError(f"{request_file} is no request; give the .zip that `comt site request` wrote.")
    if out.exists():
        raise InputError(f"{out} exists already; give another --out.")
    with tempfile.TemporaryDirectory() as scratch:
        signed = Path(scratch) / "approval.signed.zip"
        _engine(
            *("cert", "approve", "-c", str(federation / "keys"), "--profile", str(federation / "profile.yml")),
            *("--out", str(signed), str(request_file)),
        )
        out.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(out, "x") as archive:
            archive.write(signed, "approval.signed.zip")
            archive.write(federation / FEDERATION, FEDERATION)
    return out


def package(approved: Path, request_folder: Path, expected: str, kit: Path) -> None:
    """At a site: put its key and the coordinator's answer together into a kit, if the fingerprint is the right one."""
    need_engine()
    if kit.exists():
        raise InputError(f"{kit} exists already; give another --out.")
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        try:
            with zipfile.ZipFile(approved) as archive:
                for name in ("approval.signed.zip", FEDERATION):
                    (work / name).write_bytes(archive.read(name))
        except (OSError, KeyError, zipfile.BadZipFile):
            raise InputError(
                f"{approved} is no approval; give the .zip that `comt federation approve` wrote."
            ) from None
        federation = Description.load(work)
        _engine(
            *("package", str(work / "approval.signed.zip"), "--request-dir", str(request_folder)),
            *("-w", str(work / "ws"), "--fingerprint", expected),
        )
        found = [path.parent for path in (work / "ws").rglob("startup") if path.is_dir()]
        if len(found) != 1:
            raise FederationError("the kit could not be packed; make a new request.")
        _finish(found[0], kit, federation, found[0].name)


def _finish(made: Path, kit: Path, federation: Description, participant: str) -> None:
    """Move a kit to its place, readable by its owner only, and harden it."""
    kit.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(made, kit)
    kit.chmod(0o700)
    for key in (kit / "startup").glob("*.key"):
        key.chmod(0o600)
    federation.save(kit)
    if participant != OPERATOR:
        harden(kit)


def _project(federation: Description) -> dict[str, Any]:
    coordinator = {"name": "coordinator", "type": "server", "org": ORGANISATION, "fed_learn_port": federation.port}
    coordinator |= {"default_host": federation.address, "host_names": ["localhost", "127.0.0.1"]}
    lighter = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": federation.name,
        "description": "a federation of CoMT",
        "participants": [
            coordinator,
            *({"name": site, "type": "client", "org": ORGANISATION} for site in federation.sites),
            {"name": OPERATOR, "type": "admin", "org": ORGANISATION, "role": "project_admin"},
        ],
        "builders": [
            {"path": f"{lighter}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {"path": f"{lighter}.static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "grpc"}},
            {"path": f"{lighter}.cert.CertBuilder"},
            {"path": f"{lighter}.signature.SignatureBuilder"},
        ],
    }


def _profile(federation: Description) -> dict[str, Any]:
    server = {"host": federation.address, "fed_learn_port": federation.port, "admin_port": federation.port}
    return {"name": federation.name, "scheme": "grpc", "connection_security": "mtls", "server": server}


def _write_yaml(path: Path, content: dict[str, Any]) -> None:
    """Write what the engine reads as YAML: JSON is YAML."""
    path.write_text(json.dumps(content), encoding="utf-8")


def _engine(*arguments: str) -> None:
    """Run one command of the engine."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "nvflare.cli", *arguments],
            env=engine_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_STEP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FederationError(f"the engine did not finish '{arguments[0]}' in {_STEP_SECONDS} s; try again.") from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise FederationError(f"the engine refused '{' '.join(arguments[:2])}': {said[-400:]}")


class _draft:
    """A folder that appears whole, with its final name, or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty; give a new folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._draft = folder.with_name(f".{folder.name}-{os.getpid()}")

    def __enter__(self) -> Path:
        self._draft.mkdir(mode=0o700)
        return self._draft

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                if self._folder.exists():
                    self._folder.rmdir()
                self._draft.rename(self._folder)
                if (self._folder / "coordinator").exists():
                    harden(self._folder / "coordinator")  # its stores are named by full path
        finally:
            shutil.rmtree(self._draft, ignore_errors=True)
