"""The operator's commands: wrong input is one sentence before any work; kits are hardened; a doctor finds what is wrong."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pandas as pd
import pytest

from comt.agent.site_config import FILE, SiteConfig
from comt.cli import main
from comt.errors import InputError
from comt.federation.flare import hardening, kits
from comt.federation.flare.description import Description
from teaching import is_one_sentence


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "federation"
    kits.create_central(Description("tests", "localhost", 1, ("north", "south"), ("age", "dose")), folder)
    return folder


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"dose": rng.normal(size=40), "age": rng.normal(size=40)})
    table["y"] = np.where(table["age"] > 0, "ill", "well")
    table["ok"] = (np.arange(40) < 10).astype(int)
    path = tmp_path / "north.csv"
    table.to_csv(path, index=False)
    return path


def create(**options):
    given = {"--name": "x", "--sites": "a,b", "--address": "localhost", "--port": "8002", "--out": "nowhere"} | options
    return ["federation", "create", *(text for pair in given.items() for text in pair)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (create(**{"--name": "a b"}), "--name 'a b' is not a name"),
        (create(**{"--sites": "a,a"}), "every site once"),
        (create(**{"--sites": "a,Operator"}), "every site once"),
        (create(**{"--sites": "a,../b"}), "is not a name"),
        (create(**{"--sites": ","}), "names no site"),
        (create(**{"--port": "many"}), "--port many is not a number"),
        (create(**{"--port": "70000"}), "is no port"),
        (create(**{"--address": "bad address"}), "is no host name"),
        (["train", "nowhere", "--task", "regression", "--out", "run"], "holds no coordinator"),
        (["federate", "--local", "none"], "--local none is no number of sites"),
        (["federate", "a.csv"], "--target is missing"),
        (["federate", "a.csv", "--local", "2"], "give one of both"),
        (["federate", "--set", "lambda_w"], "is no assignment"),
        (["federate", "--set", "colour=red"], "there is no such parameter"),
        (["federate", "--set", "lambda_w=-1"], "lambda_w=-1 is not a positive number"),
        (["doctor", "nowhere"], "is no site's kit"),
        (["site", "start", "nowhere"], "is no site's kit"),
        (["federation", "start", "nowhere"], "holds no federation.toml"),
        (["site", "request", "--federation", "x", "--name", "a/b", "--out", "nowhere"], "is not a name"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "\n" not in said.strip()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command", [["federate"], ["federation", "create"], ["site", "configure"], ["doctor"], ["train"]]
)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as done:
        main([*command, "--help"])
    assert done.value.code == 0
    assert len(capsys.readouterr().out) > 200


def test_kits_are_hardened(federation):
    for kit in ("coordinator", "sites/north", "sites/south"):
        local = federation / kit / "local"
        rights = json.loads((local / "authorization.json").read_text())["permissions"]
        assert set(rights) == {"project_admin", "lead"}
        assert all(role["byoc"] == role["shell_commands"] == role["operate"] == "none" for role in rights.values())
        resources = json.loads((local / "resources.json").read_text())
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert resources["class_allow_list"] == list(hardening.ALLOWED)
        assert not resources["allow_log_streaming"]
        assert "site_log_streamer" not in [part["id"] for part in resources["components"]]
        assert (federation / kit).stat().st_mode & 0o077 == 0
    assert str(federation) in (federation / "coordinator" / "local" / "resources.json").read_text()
    for key in federation.rglob("*.key"):
        assert key.stat().st_mode & 0o077 == 0
    assert (federation / "keys" / "cert.json").stat().st_mode & 0o077 == 0
    assert Description.load(federation).columns == ("age", "dose")


def test_an_existing_folder_is_not_touched(federation):
    with pytest.raises(InputError, match="is not empty") as caught:
        kits.create_central(Description("tests", "localhost", 1, ("a",)), federation)
    assert is_one_sentence(caught.value)


def checks(kit, capsys):
    code = main(["doctor", str(kit), "--json"])
    found = {check["check"]: check for check in json.loads(capsys.readouterr().out)}
    assert code == (0 if all(check["ok"] for check in found.values()) else 1)
    return found


def test_configure_and_doctor(federation, data, tmp_path, capsys):
    import shutil

    kit = tmp_path / "kit"
    shutil.copytree(federation / "sites" / "north", kit)
    found = checks(kit, capsys)
    assert "comt site configure" in found["data"]["message"]
    options = ["--data", str(data), "--target", "y", "--trusted", "ok"]
    assert main(["site", "configure", str(kit), *options, "--policy", "min_rows=8", "masked=false"]) == 0
    assert "30 rows, 10 verified ones, 2 feature columns" in capsys.readouterr().out
    assert (kit / "local" / FILE).stat().st_mode & 0o077 == 0
    found = checks(kit, capsys)
    assert [name for name, check in found.items() if not check["ok"]] == ["connection"]
    assert "'north'" in found["certificate"]["message"]
    assert main(["site", "ledger", str(kit)]) == 0
    assert "Nothing has left" in capsys.readouterr().out
    # what can be wrong
    main(["site", "configure", str(kit), *options, "--drop", "age", "--policy", "min_rows=11", "masked=false"])
    shutil.copyfile(federation / "sites" / "south" / "startup" / "client.key", kit / "startup" / "client.key")
    os.chmod(kit / "startup" / "client.key", 0o644)
    capsys.readouterr()
    found = checks(kit, capsys)
    assert "age" in found["schema"]["message"]
    assert "min_rows = 11" in found["policy"]["message"]
    assert "not that of the certificate" in found["certificate"]["message"]
    assert all(is_one_sentence(ValueError(check["message"])) for check in found.values() if not check["ok"])


def test_a_coordinator_has_a_doctor_too(federation, capsys):
    found = checks(federation / "coordinator", capsys)
    assert {"software", "certificate", "clock", "disk", "port"} == set(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must hold"),
        ("[data]\nfile = 'a.csv'", "'target'"),
        ("[data]\nfile = 1\ntarget = 'y'", "1 is not text"),
        ("[data]\nfile = 'a'\ntarget = 'y'\ncolour = 'red'", "colour is not a setting"),
        ("[data]\nfile = 'a'\ntarget = 'y'\n[policy]\nminrows = 1", "no entry 'minrows'"),
        ("[data]\nfile = 'a'\ntarget = 'y'\n[policy]\nmin_rows = 'many'", "min_rows = 'many'"),
        ("[data", "cannot be read"),
    ],
)
def test_a_damaged_settings_file_is_told(tmp_path, text, words):
    path = tmp_path / FILE
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        SiteConfig.load(path)


def test_settings_survive_being_stored(tmp_path):
    policy = {"min_rows": 7, "individual": False, "purposes": ["a", 'b "c"']}
    config = SiteConfig(tmp_path / "ü \\ x.csv", 'a "b"', None, ("id", "näme"), tmp_path / "r", policy)
    config.save(tmp_path / FILE)
    assert SiteConfig.load(tmp_path / FILE) == config
    assert config.gate_policy().purposes == frozenset(["a", 'b "c"'])


def test_without_the_engine_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["federate"]) == 2
    assert "pip install 'comt[federated]'" in capsys.readouterr().err


def test_the_commands_do_not_import_the_engine():
    code = (
        "import sys; from comt.cli import _parser; _parser(); print('nvflare' in sys.modules, 'numpy' in sys.modules)"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
