"""Objects for real jobs that misbehave on purpose, at a chosen round; tests put this folder on the sites' path."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from nvflare.collab import collab
from sites_in_process import FROM_COORDINATOR, spoiled

from comt import messages
from comt.agent.flare_site import FlareSite
from comt.federation.flare import processes
from comt.messages import Envelope


class FaultySite(FlareSite):
    """Reads what to do, and when, from ``faults.json`` beside its settings."""

    @collab.publish
    def ask(self, message: bytes) -> bytes:
        asked = messages.parse(message, *FROM_COORDINATOR)
        plan = Path(collab.workspace.get_site_config_dir()) / "faults.json"
        fault = json.loads(plan.read_text()) if plan.exists() else {}
        due = isinstance(asked, Envelope) and asked.round == fault.get("round")
        kind = fault.get("kind") if due else None
        if kind is None:
            return super().ask(message)
        if kind.startswith("kill"):
            plan.unlink()  # once
            parent = {"kill coordinator": fault.get("parent"), "kill site": os.getppid()}.get(kind)
            if parent is not None:
                for process in reversed(processes.family(parent)):  # children first, this one last of all
                    if process.pid != os.getpid():
                        process.kill()
            if kind != "kill coordinator":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(5)
        if kind == "hang":
            time.sleep(fault["seconds"])
        if kind == "raise":
            raise ValueError("this site fails")
        return spoiled(super().ask(message), kind)
