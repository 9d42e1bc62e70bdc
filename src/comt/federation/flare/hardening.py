"""What may run at a kit's machine, and what may be seen of it: written into the kit again at every start."""

from __future__ import annotations

import json
from pathlib import Path

from comt.errors import InputError
from comt.writing import write_whole

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
#: seconds after which a site that sends no heartbeat (every 10 s) counts as absent
HEARTBEAT_TIMEOUT = 35


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
