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
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comt.errors import FederationError, InputError
from comt.federation.flare.extra import engine_environment, need_engine
from comt.writing import write_whole

FEDERATION = "federation.toml"
OPERATOR = "operator@comt.local"
ORGANISATION = "comt"
#: everything that a job may build at a site or at the coordinator
ALLOWED = (
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
    "comt.agent.flare_site.FlareSite",
    "comt.server.flare_coordinator.FlareCoordinator",
)
#: what the operator may do at a site: have jobs run and stopped; no code, no shell, no restart
_RIGHTS = {
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "any",
    "download_job": "any",
    "view": "any",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
#: seconds after which a site that sends no heartbeat (every 10 s) counts as absent
HEARTBEAT_TIMEOUT = 35
_STEP_SECONDS = 120


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


def harden(kit: Path) -> None:
    """Write the settings of a kit that decide what may run and what may be seen; done again at every start."""
    local = kit / "local"
    rights = json.loads((local / "authorization.json.default").read_text(encoding="utf-8"))
    rights["permissions"] = dict.fromkeys(("project_admin", "lead"), _RIGHTS)
    write_whole(local / "authorization.json", json.dumps(rights, indent=1))
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    resources["class_allow_list"] = list(ALLOWED)
    resources["allow_log_streaming"] = False
    streaming = ("site_log_streamer", "log_receiver")
    resources["components"] = [part for part in resources["components"] if part["id"] not in streaming]
    if is_coordinator(kit):
        # the default stores are shared by the whole machine: two coordinators would run each other's jobs
        store = kit.resolve() / "engine"
        resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
        (manager,) = [part for part in resources["components"] if part["id"] == "job_manager"]
        manager["args"]["uri_root"] = str(store / "jobs")
        resources["servers"][0]["heart_beat_timeout"] = HEARTBEAT_TIMEOUT
    write_whole(local / "resources.json", json.dumps(resources, indent=1))
    log = json.loads((local / "log_config.json.default").read_text(encoding="utf-8"))
    log["loggers"]["nvflare.collab"] = {"level": "WARNING"}  # three lines per call otherwise
    write_whole(local / "log_config.json", json.dumps(log, indent=1))


def is_coordinator(kit: Path) -> bool:
    """Whether a kit is the coordinator's."""
    return (kit / "startup" / "fed_server.json").exists()


def site_name(kit: Path) -> str:
    """Return the name of the site that a kit belongs to."""
    try:
        content = json.loads((kit / "startup" / "fed_client.json").read_text(encoding="utf-8"))
        return str(content["client"]["fqsn"])
    except (OSError, KeyError, ValueError):
        raise InputError(f"{kit} is no site's kit; give the folder that the coordinator handed out.") from None


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
