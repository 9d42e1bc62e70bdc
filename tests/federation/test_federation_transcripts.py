"""A training keeps what the coordinator saw, and the known attacks run on it: masked, and where owners allow plain sums."""

from __future__ import annotations

import json

import pytest
from sites_in_process import FIXED, SitesInProcess, open_sites
from test_federation_tables import table, write

from comt import CoMTRegressor
from comt.cli import main
from comt.cli.train import finish
from comt.federation.transcript import TRANSCRIPT, read_transcript
from comt.server.coordinator import RESULT, Request, coordinate

TRAINING = "ab" * 8


def trained(folder, *, protective, transcript=True):
    sites = open_sites(folder, write(folder, {f"site-{k}": table(k, n=250) for k in (1, 2, 3)}), protective=protective)
    home, out = folder / "trainings" / TRAINING, folder / "out"
    home.mkdir(parents=True)
    request = Request(
        TRAINING,
        "regression",
        CoMTRegressor(**FIXED).get_params(),
        min_sites=3,
        masked=protective,
        transcript=transcript,
    )
    coordinate(SitesInProcess(sites), request, home)
    assert finish(json.loads((home / RESULT).read_text()), home, out, as_json=True) == 0
    return out


@pytest.mark.parametrize("protective", [True, False])
def test_the_audit_runs_on_the_results_of_a_training(tmp_path, capsys, protective):
    out = trained(tmp_path, protective=protective)
    assert (out / TRANSCRIPT).stat().st_mode & 0o077 == 0
    transcript = read_transcript(out / TRANSCRIPT)
    assert len(transcript.rounds) > 3
    assert all(seen.masked == protective and bool(seen.answers) != protective for seen in transcript.rounds)
    capsys.readouterr()
    assert main(["audit", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rounds"] == len(transcript.rounds)
    assert found["masked_rounds"] == (found["rounds"] if protective else 0)
    assert found["recorded"]


def test_without_being_asked_nothing_is_kept(tmp_path, capsys):
    out = trained(tmp_path, protective=True, transcript=False)
    assert not (out / TRANSCRIPT).exists()
    assert main(["audit", str(out)]) == 2
    assert "--transcript" in capsys.readouterr().err
