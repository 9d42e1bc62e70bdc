"""Starting and stopping the engine's processes: a site or a coordinator is one parent with one child per training."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from comt.errors import InputError
from comt.federation.flare.extra import engine_environment, need_engine
from comt.federation.flare.hardening import harden

#: seconds that processes get to end by themselves
GRACE = 5.0


def start(kit: Path, log: Path | None = None, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a site or a coordinator from its kit; what it prints goes to the log, or to the terminal."""
    need_engine()
    script = kit / "startup" / "sub_start.sh"
    if not script.exists():
        raise InputError(f"{kit} is no kit; give the folder of a coordinator or a site.")
    harden(kit)  # the kit may have been moved or copied since
    command = ["bash", str(script.resolve()), "--once"]
    settings = engine_environment() | (environment or {})
    settings.pop("NVFL_WORKSPACE", None)
    if log is None:
        return subprocess.Popen(command, env=settings, stdin=subprocess.DEVNULL)
    with open(log, "ab") as file:
        return subprocess.Popen(
            command, env=settings, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )


def run(kit: Path) -> int:
    """Start from a kit and stay until it ends or is told to stop (Ctrl-C, SIGTERM); leaves no process behind."""
    parent = start(kit)

    def stopped(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stopped)
    try:
        return parent.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
        stop([parent])


def family(parent: int) -> list[Any]:
    """Return a process and all that it started, as far as they live."""
    import psutil

    try:
        process = psutil.Process(parent)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def stop(parents: Iterable[subprocess.Popen[bytes]], grace: float = GRACE) -> None:
    """End processes with all that they started: asked first, then killed."""
    import psutil

    parents = list(parents)
    everybody = [process for parent in parents for process in family(parent.pid)]
    for process in everybody:
        _signal(process, signal.SIGTERM)
    _, alive = psutil.wait_procs(everybody, timeout=grace)
    # children that were started meanwhile
    alive += [process for parent in parents for process in family(parent.pid) if process not in alive]
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=grace)
    for parent in parents:
        if parent.poll() is None:
            parent.wait(grace)


def _signal(process: Any, number: int) -> None:
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
