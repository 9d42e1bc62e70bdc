"""A whole federation by its commands: real processes, mutual TLS; strangers stay out, rows stay in, nothing stays running."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from deployment import HERE, Deployment, allowed, left_running
from sites_in_process import FIXED, agents_of, path_with, site_files

from comt import CoMTRegressor, load
from comt.agent import Policy
from comt.federation.flare import kits, processes
from comt.federation.flare.description import Description
from comt.federation.flare.operator import Operator
from comt.one_machine import free_port

pytestmark = pytest.mark.slow

COMT = str(Path(sys.executable).parent / "comt")
SITES = ("site-1", "site-2", "site-3")
SET = [f"{name}={value}" for name, value in FIXED.items()]


def comt(*arguments, code=0):
    """Run one command as an operator would; return what it prints."""
    done = subprocess.run(
        [COMT, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def started(*arguments, log):
    """Start a command that stays, as a service manager would."""
    with open(log, "ab") as file:
        return subprocess.Popen([COMT, *map(str, arguments)], stdout=file, stderr=file, stdin=subprocess.DEVNULL)


def central(folder):
    """The coordinator makes all keys."""
    federation = folder / "federation"
    comt(
        *("federation", "create", "--name", "central", "--sites", ",".join(SITES), "--address", "localhost"),
        *("--port", free_port(), "--columns", "x2,x0,x1", "--out", federation),
    )
    return federation, {site: federation / "sites" / site for site in SITES}


def distributed(folder):
    """Every site makes its own key; it never leaves the site's folder."""
    federation = folder / "federation"
    said = comt(
        *("federation", "create", "--name", "distributed", "--address", "localhost", "--port", free_port()),
        *("--out", federation),
    )
    mark = re.search(r"([0-9A-F]{2}:){31}[0-9A-F]{2}", said).group()
    made = {}
    for site in SITES:
        comt("site", "request", "--federation", "distributed", "--name", site, "--out", folder / site / "request")
        (request,) = (folder / site / "request").glob("*.zip")
        comt("federation", "approve", federation, request, "--out", folder / f"{site}.zip")
        made[site] = folder / site / "kit"
        comt(
            *("site", "package", folder / f"{site}.zip", "--request", folder / site / "request"),
            *("--fingerprint", mark, "--out", made[site]),
        )
    for key in folder.glob("site-*/request/*.key"):
        secret = key.read_bytes()
        assert not any(secret in path.read_bytes() for path in federation.rglob("*") if path.is_file())
    return federation, made


def cycle(folder, create):
    """Provision, configure, check, start, train, read the ledger, stop; return the seconds it took, and may take."""
    folder.mkdir()
    begin = time.monotonic()
    paths = site_files(folder, 3)
    federation, made = create(folder)
    for site, kit in made.items():
        comt("site", "configure", kit, "--data", paths[site], "--target", "y", "--trusted", "ok")
    refused = comt("doctor", made["site-1"], "--json", code=1)
    problems = [check["check"] for check in json.loads(refused) if not check["ok"]]
    assert problems == ["connection"]  # nobody listens yet
    running = [started("federation", "start", federation, log=folder / "coordinator.log")]
    running += [started("site", "start", kit, log=folder / f"{site}.log") for site, kit in made.items()]
    try:
        with Operator(federation, 60.0) as operator:
            assert operator.wait_for(3, 60.0) == SITES
        assert "PROBLEM" not in comt("doctor", made["site-1"])
        assert "site-1, site-2, site-3" in comt("federation", "status", federation)
        comt("train", federation, "--task", "regression", "--min-sites", 3, "--out", folder / "run", "--set", *SET)
        assert "is intact" in comt("site", "ledger", made["site-2"])
        ledger = comt("site", "ledger", made["site-2"], "--json")
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(30) for process in running]
    seconds = time.monotonic() - begin
    assert codes == [1, 1, 1, 1]  # stopped by hand
    model = load(folder / "run" / "model.json")
    # the gate merges bins of fewer than ten rows, in a federation as in one process; masks round to 2⁻³²
    expected = CoMTRegressor(**FIXED).fit_agents(agents_of(paths, policy=Policy(min_rows=10)))
    order = [model.columns.index(name) for name in expected.feature_names_in_]
    np.testing.assert_allclose(model.coef[order], expected.coef_, rtol=0, atol=1e-7)
    open_ones = [part["purpose"] for part in json.loads(ledger)["purposes"] if not part["masked"]]
    assert open_ones == ["declaration of columns"]  # their names, when it joined; every sum was under masks
    for kit in made.values():
        (issues,) = kit.glob("results/*/issues.csv")
        assert len(pd.read_csv(issues)) == 100
        assert issues.with_name("report.html").stat().st_mode & 0o077 == 0
    assert "site-2" in (folder / "run" / "report.html").read_text()
    return seconds, allowed(120.0)


def test_two_federations_side_by_side_by_their_commands(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(cycle, tmp_path / create.__name__, create) for create in (central, distributed)]
        took = [future.result(1800) for future in done]
    assert left_running(tmp_path) == []
    for seconds, limit in took:
        assert seconds < 2.0 * limit, took  # two at a time


def test_one_command_tries_everything(tmp_path):
    begin = time.monotonic()
    lines = comt("federate", "--local", 3, "--out", tmp_path / "run", "--json").splitlines()
    said = json.loads(next(line for line in lines if line.startswith("{")))
    assert said["masked"]
    assert time.monotonic() - begin < allowed(60.0)
    assert said["sites"] == list(SITES)
    assert said["certificate"] <= said["tol"]
    assert (tmp_path / "run" / "run" / "report.html").exists()
    assert (tmp_path / "run" / "results" / "site-1" / said["training"] / "issues.csv").exists()
    assert left_running(tmp_path) == []


@pytest.fixture(scope="module")
def two_of_three(tmp_path_factory):
    """A federation of three whose second site has not started."""
    folder = tmp_path_factory.mktemp("strangers")
    running = Deployment(folder)
    running.start("coordinator", "site-1", "site-3")
    try:
        running.wait_connected(2)
        yield running
    finally:
        running.stop()
    assert left_running(folder) == []


def test_without_a_certificate_nobody_gets_in(two_of_three):
    federation = Description.load(two_of_three.federation)
    context = ssl.create_default_context(cafile=two_of_three.kit("site-1") / "startup" / "rootCA.pem")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])

    def knock():
        address = ("localhost", federation.port)
        with socket.create_connection(address, 10) as plain, context.wrap_socket(plain) as secure:
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            if not secure.recv(1):
                raise ConnectionError

    with pytest.raises((ssl.SSLError, ConnectionError)):
        knock()


def _refused(deployment, kit, log, words):
    """Start a site from a kit, wait until it is turned away, and see that nobody of its name is in."""
    process = processes.start(kit, log, deployment.environment)
    try:
        until = time.monotonic() + 60
        console = deployment.folder / "coordinator.console.log"
        while not re.search(words, console.read_text(errors="replace") + log.read_text(errors="replace")):
            assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
            time.sleep(0.2)
        with Operator(deployment.federation, 40.0) as operator:
            assert operator.sites() == ("site-1", "site-3")
    finally:
        processes.stop([process])


def test_a_certificate_of_another_federation_is_refused(two_of_three, tmp_path):
    port = Description.load(two_of_three.federation).port
    kits.create_central(Description("tests", "localhost", port, ("site-2",)), tmp_path / "foreign")
    kit = tmp_path / "foreign" / "sites" / "site-2"
    said = json.loads(comt("doctor", kit, "--json", code=1))
    connection = next(check for check in said if check["check"] == "connection")
    assert "another federation" in connection["message"]
    _refused(
        two_of_three, kit, tmp_path / "log", r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|Ssl handshake failed"
    )


def test_the_key_of_one_site_under_the_name_of_another_is_refused(two_of_three, tmp_path):
    kit = tmp_path / "site-2"
    shutil.copytree(two_of_three.kit("site-1"), kit)
    for file in ("fed_client.json", "sub_start.sh"):
        path = kit / "startup" / file
        path.write_text(path.read_text().replace("site-1", "site-2"))
    _refused(two_of_three, kit, tmp_path / "log", "authenticated as 'site-1' but claimed")


def test_code_that_travels_with_a_job_is_refused(two_of_three, tmp_path):
    """Only the two installed classes may run."""
    from faulty_objects import FaultySite

    from comt.server.flare_coordinator import FlareCoordinator

    with Operator(two_of_three.federation, 40.0) as operator:
        job = operator.submit("0" * 8, 2, FlareCoordinator(training="0" * 8), FaultySite())
        until = time.monotonic() + 60
        while not operator.status(job).startswith("FINISHED") and time.monotonic() < until:
            time.sleep(0.3)
        assert operator.status(job) not in ("FINISHED:COMPLETED", "RUNNING")
        operator.abort(job)


def test_no_value_of_a_row_leaves_a_site(tmp_path):
    """Rows of distinctive values; every frame, checkpoint, log and report outside the sites is searched for them."""
    frames = tmp_path / "frames"
    frames.mkdir()
    (tmp_path / "taint").mkdir()
    deployment = Deployment(tmp_path / "taint")
    rng = np.random.default_rng(7)
    values = []
    for path in deployment.paths.values():
        table = pd.read_csv(path)
        for name in ("x0", "x1", "x2", "y"):
            table[name] = [float(f"7313.{digits:010d}") for digits in rng.integers(10**10, size=len(table))]
            values += table[name].tolist()
        table.to_csv(path, index=False)
    deployment.environment = {
        "PYTHONPATH": path_with(f"{HERE}/frame_capture", HERE), "COMT_TEST_FRAMES": str(frames),
    }  # fmt: skip
    with deployment:
        deployment.wait_connected(3)
        for name, parameters in (
            ("a", {}),
            ("b", {"select": 0.8, "select_by": "loss"}),
            ("c", {"solver": "admm"}),
            ("d", {"masked": True}),
        ):
            folder = deployment.request(8 * name, min_sites=3, seconds=30.0, tol=1e-4, **parameters)
            assert deployment.train(folder)["done"]
    outside = [path for path in (deployment.federation / "coordinator").rglob("*") if path.is_file()]
    outside += [*frames.iterdir(), tmp_path / "taint" / "coordinator.console.log"]
    assert len(list(frames.iterdir())) >= 8  # four parents, and the processes of every job
    captured = b"".join(path.read_bytes() for path in frames.iterdir())
    assert b"DualSums" in captured
    assert b"ProximalStep" in captured
    known = np.sort(np.array(values))
    texts = {repr(value)[:13].encode() for value in values}
    for path in outside:
        assert not tainted(path.read_bytes(), known, texts), path
    # the search finds what is there: the sites' own files
    own = deployment.folder / "results" / "site-1" / ("a" * 8) / "issues.csv"
    assert tainted(own.read_bytes(), known, texts)
    assert tainted(np.array([1.0, values[5]]).tobytes() + b"x", known, texts)


def tainted(content, known, texts):
    """Whether a value of a row stands anywhere in some bytes, as text or as a float in either byte order."""
    if any(match[:13] in texts for match in re.findall(rb"7313\.[0-9]{8,}", content)):
        return True
    for offset in range(8):
        whole = len(content) - (len(content) - offset) % 8
        for order in ("<f8", ">f8"):
            numbers = np.frombuffer(content[offset:whole], dtype=order).astype(np.float64)
            near = numbers[(numbers > 7313) & (numbers < 7314)]
            if len(near) and np.isin(near, known).any():
                return True
    return False
