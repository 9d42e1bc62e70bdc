"""A federation of sites behind a transport: same sums, same models, and nobody's mistake ends up in them."""

from __future__ import annotations

import json
import threading

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sites_in_process import FIXED, SitesInProcess, agents_of, open_sites, settings, site_files

from comt import CoMTClassifier, CoMTRegressor, load, messages, wire
from comt.agent import Policy
from comt.agent.ledger import read_lines
from comt.agent.site_service import SiteService
from comt.declaration import Declare
from comt.errors import FederationError, GateError, InputError, SiteLeftError
from comt.federation import LocalFederation
from comt.federation.journal import Journal
from comt.federation.remote import RemoteFederation
from comt.federation.transport import Replies
from comt.queries import MomentsByAgent, RobustMoments, Spread
from comt.server.coordinator import Progress, Request, coordinate, run
from comt.server.training import train as train_locally
from comt.settings import check_settings
from teaching import is_one_sentence

TRAINING = "ab" * 8
FAULTS = ["raise", "silent", "nan", "shape", "names", "huge", "stale", "training", "imposter", "garbage", "policy"]


def request(task="regression", min_sites=2, masked=False, **parameters):
    estimator = (CoMTRegressor if task == "regression" else CoMTClassifier)(**FIXED | parameters)
    return Request(
        TRAINING, task, estimator.get_params(), min_sites=min_sites, seconds=5.0, join_seconds=5.0, masked=masked
    )


def train(transport, asked, journal=None):
    return run(transport, asked, journal or Journal(None), Progress(None))


def local(paths, task="regression", **parameters):
    estimator = CoMTRegressor if task == "regression" else CoMTClassifier
    return estimator(**FIXED | parameters).fit_agents(agents_of(paths, task))


def rounds_of(transport):
    asked = [messages.parse(m, *KINDS) for m in transport.messages]
    return [m for m in asked if isinstance(m, messages.Envelope)]


def rounds_of_kind(transport, kind):
    return [m for m in transport.messages if kind.encode() in m]


KINDS = tuple(messages.vocabulary()[name] for name in (
    "Join", "Joined", "Begin", "Agreed", "Envelope", "Reply", "Finish", "Sealed", "SealedReply"
))  # fmt: skip


@pytest.mark.parametrize(
    ("task", "parameters"),
    [
        ("regression", {"lambda_alpha": 0.1, "lambda_z": 5.0}),
        ("regression", {"solver": "newton-cg"}),
        ("regression", {"solver": "admm", "tol": 1e-2}),
        ("regression", {"select": 0.7, "select_by": "loss"}),
        ("classification", {"lambda_trusted": 10}),
        ("classification", {"select": "auto"}),
    ],
)
def test_the_model_is_that_of_a_local_federation(tmp_path, task, parameters):
    paths = site_files(tmp_path, 3, task=task)
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), request(task, **parameters))
    expected = local(paths, task, **parameters)
    np.testing.assert_allclose(outcome.model.coef, np.ravel(expected.coef_), rtol=0, atol=1e-10)
    assert outcome.model.intercept == pytest.approx(np.ravel(expected.intercept_)[0], abs=1e-10)
    assert outcome.federation.agents == ("site-1", "site-2", "site-3")


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("first", [1, 3, "last"])
def test_a_site_that_misbehaves_leaves_by_name_and_the_model_is_that_of_the_others(tmp_path, kind, first):
    paths = site_files(tmp_path, 3)
    if first == "last":
        clean = SitesInProcess(open_sites(tmp_path, paths))
        train(clean, request())
        first = max(envelope.round for envelope in rounds_of(clean))
    transport = SitesInProcess(open_sites(tmp_path, paths), {"site-2": (kind, first)})
    outcome = train(transport, request())
    assert list(outcome.federation.left) == ["site-2"]
    expected = local({name: path for name, path in paths.items() if name != "site-2"})
    np.testing.assert_array_equal(outcome.model.coef, expected.coef_)


def test_too_few_sites_end_the_training_with_all_reasons(tmp_path):
    paths = site_files(tmp_path, 3)
    faults = {"site-1": ("nan", 1), "site-3": ("silent", 2)}
    with pytest.raises(FederationError, match=r"1 of the 2 sites") as caught:
        train(SitesInProcess(open_sites(tmp_path, paths), faults), request())
    assert "site site-1 sent a message that cannot be read" in str(caught.value)
    assert "site site-3 did not answer within 5 s" in str(caught.value)


def test_other_columns_never_join(tmp_path):
    paths = site_files(tmp_path, 3)
    paths["site-2"].write_text(paths["site-2"].read_text().replace("x1", "x9"))
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), request())
    assert outcome.federation.left == {"site-2": "has other columns than the federation (differing: 'x1', 'x9')"}


def test_another_order_of_columns_is_the_same_federation(tmp_path):
    paths = site_files(tmp_path, 2)
    expected = local(paths)
    table = pd.read_csv(paths["site-2"])
    table[["ok", "x2", "y", "x0", "x1"]].to_csv(paths["site-2"], index=False)
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), request())
    np.testing.assert_array_equal(outcome.model.coef, expected.coef_)


def test_labels_that_differ_are_told(tmp_path):
    paths = site_files(tmp_path, 2, task="classification")
    paths["site-1"].write_text(paths["site-1"].read_text().replace("yes", "ja"))
    with pytest.raises(InputError, match="labels"):
        train(SitesInProcess(open_sites(tmp_path, paths)), request("classification"))


class Crashes:
    """A transport whose coordinator dies at a message, as a killed process does: with an error nobody catches."""

    class Killed(BaseException):
        pass

    def __init__(self, inner, after):
        self._inner, self._left = inner, after

    @property
    def sites(self):
        return self._inner.sites

    def ask(self, sites, message, seconds):
        self._left -= 1
        replies = self._inner.ask(sites, message, seconds)
        if self._left < 0:
            raise self.Killed
        return replies


@pytest.mark.parametrize(
    ("solver", "after"), [("newton", 2), ("newton", 3), ("newton", 6), ("newton", 10), ("admm", 9)]
)
def test_a_killed_coordinator_resumes_to_the_same_model(tmp_path, solver, after):
    paths = site_files(tmp_path, 3, task="classification")
    asked = request("classification", solver=solver, tol=1e-2)
    expected = train(SitesInProcess(open_sites(tmp_path / "a", paths)), asked).model
    path = tmp_path / "checkpoint.bin"
    with pytest.raises(Crashes.Killed):
        train(Crashes(SitesInProcess(open_sites(tmp_path / "b", paths)), after), asked, Journal(path))
    # every process is new: sites remember what is on their disk only
    outcome = train(SitesInProcess(open_sites(tmp_path / "b", paths)), asked, Journal(path))
    np.testing.assert_array_equal(outcome.model.coef, expected.coef)
    # three messages are no rounds: joining, beginning and, after the first round, the schema
    assert outcome.federation.replayed == (after - 3 if after > 3 else after - 2)
    assert outcome.training.rounds == expected.provenance["rounds"]


def test_a_repeated_step_of_algorithm_1_is_not_applied_twice(tmp_path):
    paths = site_files(tmp_path, 2)
    transport = SitesInProcess(open_sites(tmp_path, paths))
    train(transport, request(solver="admm", tol=1e-2))
    steps = [m for m in transport.messages if b"ProximalStep" in m]
    site = open_sites(tmp_path, paths)["site-1"]  # a new process with the old disk
    join = next(m for m in transport.messages if b"Join" in m)
    begin = next(m for m in transport.messages if b"Begin" in m)
    agreed = next(m for m in transport.messages if b"Agreed" in m)
    early = messages.parse(
        [site.handle(m) for m in (join, begin, rounds_of_kind(transport, "DualSums")[0])][-1], messages.Reply
    )
    assert early.refusal == "protocol"  # no row is read before it is known how
    site.handle(agreed)
    first, second = (messages.parse(site.handle(steps[-1]), messages.Reply) for _ in range(2))
    assert first.refusal == ""
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, second.arrays[name])
    gone = messages.parse(site.handle(steps[-3]), messages.Reply)
    assert gone.refusal == "protocol"


def test_a_coordinator_that_lost_a_step_of_algorithm_1_gets_it_again(tmp_path):
    """It died after the sites had taken the next step; both are answered from what the sites remember."""
    paths = site_files(tmp_path, 2)
    transport = SitesInProcess(open_sites(tmp_path, paths))
    asked = request(solver="admm", tol=1e-2)
    path, before = tmp_path / "checkpoint.bin", tmp_path / "before.bin"
    expected = train(SitesInProcess(open_sites(tmp_path / "a", paths)), asked)

    class Copies(Crashes):
        def ask(self, sites, message, seconds):
            if self._left == 1:
                before.write_bytes(path.read_bytes())  # what the disk has; the next record is lost
            return super().ask(sites, message, seconds)

    with pytest.raises(Crashes.Killed):
        train(Copies(transport, 12), asked, Journal(path))
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), asked, Journal(before))
    np.testing.assert_array_equal(outcome.model.coef, expected.model.coef)
    assert outcome.federation.replayed == 12 - 4


@pytest.mark.parametrize("solver", ["newton", "admm"])
def test_a_checkpoint_cut_short_loses_one_round_only(tmp_path, solver):
    """A power cut may cost the last round; sites remember the last two of Algorithm 1."""
    paths = site_files(tmp_path, 2)
    path = tmp_path / "checkpoint.bin"
    asked = request(solver=solver, tol=1e-2)
    expected = train(SitesInProcess(open_sites(tmp_path, paths)), asked, Journal(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), asked, Journal(path))
    assert outcome.federation.replayed == expected.federation.rounds - 1
    np.testing.assert_array_equal(outcome.model.coef, expected.model.coef)


def test_a_checkpoint_of_another_training_is_not_used(tmp_path):
    paths = site_files(tmp_path, 2)
    path = tmp_path / "checkpoint.bin"
    train(SitesInProcess(open_sites(tmp_path, paths)), request(), Journal(path))
    other = train(SitesInProcess(open_sites(tmp_path, paths)), request(lambda_alpha=0.3), Journal(path))
    np.testing.assert_array_equal(other.model.coef, local(paths, lambda_alpha=0.3).coef_)


def test_a_site_that_was_lost_before_the_crash_stays_out_after_it(tmp_path):
    paths = site_files(tmp_path, 3)
    path = tmp_path / "checkpoint.bin"
    faulty = SitesInProcess(open_sites(tmp_path, paths), {"site-3": ("silent", 2)})
    with pytest.raises(Crashes.Killed):
        train(Crashes(faulty, 6), request(), Journal(path))
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), request(), Journal(path))
    assert outcome.federation.agents == ("site-1", "site-2")
    expected = local({name: paths[name] for name in ("site-1", "site-2")})
    np.testing.assert_array_equal(outcome.model.coef, expected.coef_)


def test_rounds_are_never_numbered_twice(tmp_path):
    paths = site_files(tmp_path, 3)
    transport = SitesInProcess(open_sites(tmp_path, paths), {"site-3": ("silent", 3)})
    train(transport, request())
    numbers = [envelope.round for envelope in rounds_of(transport)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_nothing_but_sums_is_in_the_checkpoint_and_in_the_folder(tmp_path):
    paths = site_files(tmp_path, 3)
    folder = tmp_path / "training"
    folder.mkdir()
    request().save(folder)
    coordinate(SitesInProcess(open_sites(tmp_path, paths)), Request.load(folder), folder)
    result = json.loads((folder / "result.json").read_text())
    assert result["done"]
    assert result["sites"] == ["site-1", "site-2", "site-3"]
    journal = Journal(folder / "checkpoint.bin")
    assert journal.attempt is not None
    pooled = LocalFederation(agents_of(paths))
    spread = pooled.sum(Spread(center=np.zeros(4)))
    assert spread["rows"] == 360
    for done in journal.attempt.rounds:
        for array in done.totals.values():
            assert array.shape == () or 360 not in array.shape
    assert (folder / "checkpoint.bin").stat().st_mode & 0o077 == 0


def check_scores(issues, path, outcome):
    """Scores are 1 − the false discovery rate of the residuals; from the file and the model, by SciPy."""
    rows = pd.read_csv(path).iloc[issues["row"]]
    errors = rows["y"] - outcome.model.predict(rows)
    sigma = outcome.residual_size * outcome.model.preparation.target_scale
    rates = stats.false_discovery_control(2.0 * stats.norm.sf(np.abs(errors) / sigma))
    np.testing.assert_allclose(issues["score"], 1.0 - rates, rtol=0, atol=1e-9)
    assert (issues["flagged"] == (rates <= 0.2)).all()
    assert (issues["flagged"] & (issues["row"] >= 96)).sum() >= 15  # of 24 negated targets, some of them near zero


def test_every_site_gets_its_own_issues_and_its_ledger(tmp_path):
    paths = site_files(tmp_path, 3)
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), request(lambda_trusted=100.0))
    for name in paths:
        folder = tmp_path / "results" / name
        table = pd.read_csv(folder / TRAINING / "issues.csv")
        assert sorted(table["row"]) == list(range(20, 120))
        assert table["score"].is_monotonic_decreasing
        # the last 24 rows of every file have their targets negated
        assert (table["row"][:15] >= 96).all()
        check_scores(table, paths[name], outcome)
        assert (folder / TRAINING / "issues.csv").stat().st_mode & 0o077 == 0
        np.testing.assert_array_equal(load(folder / TRAINING / "model.json").coef, outcome.model.coef)
        lines = read_lines(folder / "ledger.jsonl")
        assert lines[0]["training"] == TRAINING
        told = {line["array"] for line in lines if line["event"] == "left" and not line["round"]}
        assert told == {"x0", "x1", "x2"}  # the columns, when it joined
        entries = [line for line in lines if line["event"] == "left" and line["round"]]
        assert {entry["round"] for entry in entries} == set(range(1, outcome.federation.rounds + 1))
        assert all(entry["agent"] == name for entry in entries)


def test_a_policy_refuses_without_telling_why(tmp_path):
    paths = site_files(tmp_path, 2)
    sites = open_sites(tmp_path, paths)
    strict = lambda: settings(paths["site-2"], tmp_path / "results" / "site-2", min_rows=1234)  # noqa: E731
    sites["site-2"] = SiteService("site-2", strict)
    transport = SitesInProcess(sites)
    outcome = train(transport, request(min_sites=1))
    assert outcome.federation.left == {"site-2": "refused 'missing cells of columns' by its own policy"}
    assert b"1234" not in b"".join(transport.messages)
    lines = read_lines(tmp_path / "results" / "site-2" / "ledger.jsonl")
    assert [line["event"] for line in lines if line.get("round", 1)] == ["training", "refused"]
    assert "could not answer 'missing cells of columns'" in (tmp_path / "results" / "site-2" / "site.log").read_text()


def test_what_a_failing_site_says_stays_there(tmp_path):
    paths = site_files(tmp_path, 2)
    paths["site-2"].write_text(paths["site-2"].read_text() + "4242.4242,x,y,z,1\n")
    transport = SitesInProcess(open_sites(tmp_path, paths))
    outcome = train(transport, request(min_sites=1))
    assert outcome.federation.left == {"site-2": "could not use its data"}
    assert b"4242" not in b"".join(transport.messages)
    assert "could not answer join" in (tmp_path / "results" / "site-2" / "site.log").read_text()


def test_a_site_that_is_busy_says_so_within_the_deadline(tmp_path):
    site = open_sites(tmp_path, site_files(tmp_path, 1))["site-1"]
    held, free = threading.Event(), threading.Event()

    def hold():
        with site._lock:
            held.set()
            free.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    try:
        reply = site.handle(wire.pack(messages.Join(training=TRAINING, task="regression", seconds=0.05)))
        assert messages.parse(reply, messages.Joined).refusal == "late"
    finally:
        free.set()
        holder.join()


@pytest.mark.parametrize("training", ["../../etc", "", "AB" * 8, "ab"])
def test_a_training_is_named_by_digits_only(tmp_path, training):
    """The name becomes a folder at the site."""
    site = open_sites(tmp_path, site_files(tmp_path, 1))["site-1"]
    reply = messages.parse(site.handle(wire.pack(messages.Join(training=training, task="regression"))), messages.Joined)
    assert reply.refusal == "protocol"


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04K\x01.", b"N", b"comt", "text", None, wire.pack({"a": 1}), wire.pack(None)]
)
def test_a_site_answers_garbage_with_one_word(tmp_path, data):
    site = open_sites(tmp_path, site_files(tmp_path, 1))["site-1"]
    assert messages.parse(site.handle(data), messages.Reply).refusal == "protocol"


def test_a_question_that_would_need_too_large_an_answer_is_refused(tmp_path):
    from comt.preparation import Preparation
    from comt.queries import DualSums

    width = 3000
    vectors = np.zeros((40, width))
    query = DualSums(
        loss_name="squared", preparation=Preparation.identity(width), r=vectors, theta=vectors,
        lambda_alpha=np.zeros(40), lambda_z=np.full(40, np.inf),
    )  # fmt: skip
    envelope = messages.Envelope(
        training=TRAINING, round=1, purpose=query.purpose, participants=("site-1",), query=query
    )
    site = open_sites(tmp_path, site_files(tmp_path, 1))["site-1"]
    assert messages.parse(site.handle(wire.pack(envelope)), messages.Reply).refusal == "protocol"


def test_no_site_is_one_sentence(tmp_path):
    class Nobody:
        sites = ()

        def ask(self, sites, message, seconds):
            return Replies({})

    federation = RemoteFederation(Nobody(), TRAINING, "regression")
    federation.gather()
    with pytest.raises(FederationError, match="no site takes part") as caught:
        federation.begin()
    assert is_one_sentence(caught.value)


def test_a_lost_site_is_one_sentence():
    assert is_one_sentence(SiteLeftError({"north": "did not answer within 3 s"}))


def test_under_masks_the_model_is_the_same_and_no_answer_of_a_site_is_seen(tmp_path):
    paths = site_files(tmp_path, 3)
    transport = SitesInProcess(open_sites(tmp_path, paths, protective=True))
    outcome = train(transport, request(masked=None))
    assert outcome.federation.masked
    expected = CoMTRegressor(**FIXED).fit_agents(agents_of(paths, policy=Policy(min_rows=10)))
    np.testing.assert_allclose(outcome.model.coef, expected.coef_, rtol=0, atol=1e-7)
    assert rounds_of(transport) == []  # every question went under masks
    lines = read_lines(tmp_path / "results" / "site-1" / "ledger.jsonl")
    assert all(line["masked"] for line in lines if line["event"] == "left" and line["purpose"] != Declare.purpose)


def test_two_sites_are_not_masked_and_protective_sites_refuse_them(tmp_path):
    paths = site_files(tmp_path, 2)
    with pytest.raises(FederationError, match=r"refused .* by its own policy"):
        train(SitesInProcess(open_sites(tmp_path, paths, protective=True)), request(masked=None))


@pytest.mark.parametrize("first", [1, 4, 6])
def test_a_site_that_falls_silent_under_masks_leaves_no_trace_in_the_model(tmp_path, first):
    paths = site_files(tmp_path, 4)
    policy = {"protective": True, "allow_leavers": True}
    transport = SitesInProcess(open_sites(tmp_path, paths, **policy), {"site-2": ("silent", first)})
    outcome = train(transport, request(masked=None))
    assert outcome.federation.left == {"site-2": "did not answer within 5 s"}
    rest = {name: path for name, path in paths.items() if name != "site-2"}
    expected = CoMTRegressor(**FIXED).fit_agents(agents_of(rest, policy=Policy(min_rows=10)))
    np.testing.assert_allclose(outcome.model.coef, expected.coef_, rtol=0, atol=1e-7)


def test_under_masks_sites_do_not_answer_again_without_the_one_that_left(tmp_path):
    """Two sums that differ by one site's answer would show it; owners who accept that say allow_leavers."""
    paths = site_files(tmp_path, 4)
    transport = SitesInProcess(open_sites(tmp_path, paths, protective=True), {"site-2": ("silent", 6)})
    with pytest.raises(FederationError, match=r"refused .* by its own policy"):
        train(transport, request(masked=None))


def test_a_masked_training_resumes_to_the_same_model(tmp_path):
    paths = site_files(tmp_path, 3)
    asked = request(masked=None)
    expected = train(SitesInProcess(open_sites(tmp_path / "a", paths, protective=True)), asked).model
    path = tmp_path / "checkpoint.bin"
    with pytest.raises(Crashes.Killed):
        train(Crashes(SitesInProcess(open_sites(tmp_path / "b", paths, protective=True)), 8), asked, Journal(path))
    outcome = train(SitesInProcess(open_sites(tmp_path / "b", paths, protective=True)), asked, Journal(path))
    assert outcome.federation.replayed > 0
    np.testing.assert_array_equal(outcome.model.coef, expected.coef)


# automatic choice where owners allow no sum by agent


def automatic(task="regression", **options):
    estimator = CoMTRegressor() if task == "regression" else CoMTClassifier()
    return Request(TRAINING, task, estimator.get_params(), min_sites=3, seconds=30.0, join_seconds=30.0, **options)


class Together(LocalFederation):
    """The same agents in one process, without masks: what owners refuse about the sum over sites is refused here."""

    def __init__(self, agents, refused=()):
        super().__init__(agents, threads=1)
        self._refused = refused
        self._careful = any(agent.gate.policy.min_rows > 1 for agent in agents)
        for agent in agents:
            agent.gate.check_totals = lambda *_: None  # it would weigh every agent's own answer

    def sum(self, query):
        if isinstance(query, MomentsByAgent) and (query.n_folds, query.whole) in self._refused:
            raise GateError("too few rows")
        if isinstance(query, RobustMoments) and self._careful:
            raise GateError("sums over the rows that fit are a few rows apart from model to model")
        return super().sum(query)


def chosen_together(paths, task, policy, refused=()):
    loss = "squared" if task == "regression" else "logistic"
    estimator = CoMTRegressor() if task == "regression" else CoMTClassifier()
    federation = Together(agents_of(paths, task, policy), refused)
    return train_locally(federation, check_settings(estimator, loss), by_agent=False)


@pytest.mark.parametrize(
    ("task", "trusted", "far_out", "refused"),
    [
        ("regression", 60, 0, []),
        ("regression", 12, 0, [(5, False)]),  # 36 trusted rows in five folds are fewer than ten each
        ("regression", 60, 1, [(1, True)]),  # three rows of all are far out: one sum less another would show them
        ("regression", 60, 5, []),  # fifteen are enough
        ("classification", 12, 0, []),
        ("classification", 12, 1, [(1, True)]),
    ],
)
def test_protective_sites_under_masks_choose_the_model_of_the_local_form(tmp_path, task, trusted, far_out, refused):
    paths = site_files(tmp_path, 3, task=task, n=300, trusted=trusted)
    for path in paths.values():
        table = pd.read_csv(path)
        table.loc[len(table) - far_out :, "x1"] = 1e5
        table.to_csv(path, index=False)
    transport = SitesInProcess(open_sites(tmp_path, paths, protective=True))
    outcome = train(transport, automatic(task))
    assert outcome.federation.masked
    assert outcome.federation.left == {}
    expected = chosen_together(paths, task, Policy(min_rows=10, by_agent=False), refused)
    np.testing.assert_allclose(outcome.training.theta, expected.theta, rtol=0, atol=1e-7)
    lines, others = (t.choice.lines for t in (outcome.training, expected))
    assert [line.candidate for line in lines] == [line.candidate for line in others]
    np.testing.assert_allclose([line.share for line in lines], [line.share for line in others], rtol=0, atol=1e-6)
    entries = read_lines(tmp_path / "results" / "site-1" / "ledger.jsonl")
    robust = task == "regression"  # fits of the rows that fit are asked for there, and refused
    assert sum(entry["event"] == "refused" for entry in entries) == len(refused) + robust
    assert rounds_of(transport) == []  # no answer of a site by itself


def test_sites_that_allow_it_are_asked_one_by_one(tmp_path):
    paths = site_files(tmp_path, 3, n=300)
    outcome = train(SitesInProcess(open_sites(tmp_path, paths)), automatic(masked=False))
    expected = CoMTRegressor().fit_agents(agents_of(paths))
    assert outcome.training.choice.agents == ("site-1", "site-2", "site-3")
    np.testing.assert_allclose(outcome.model.coef, expected.coef_, rtol=0, atol=1e-10)


def test_one_site_that_does_not_allow_it_decides_for_all(tmp_path):
    paths = site_files(tmp_path, 3, n=300)
    sites = open_sites(tmp_path, paths)
    shy = lambda: settings(paths["site-2"], tmp_path / "results" / "site-2", by_agent=False)  # noqa: E731
    sites["site-2"] = SiteService("site-2", shy)
    outcome = train(SitesInProcess(sites), automatic(masked=False))
    assert outcome.federation.left == {}
    np.testing.assert_allclose(outcome.training.theta, chosen_together(paths, "regression", None).theta, atol=1e-10)


@pytest.mark.parametrize("after", [6, 14, 22])
def test_a_choice_with_refused_questions_resumes_to_the_same_model(tmp_path, after):
    paths = site_files(tmp_path, 3, n=300, trusted=12)
    asked = automatic(masked=False)
    policy = {"by_agent": False, "min_rows": 10, "min_trusted_rows": 0, "max_refusals": 20}
    first = SitesInProcess(open_sites(tmp_path / "a", paths, **policy))
    expected = train(first, asked)
    assert sum(b"policy" in message for message in first.messages) >= 3  # all three refused something
    path = tmp_path / "checkpoint.bin"
    with pytest.raises(Crashes.Killed):
        train(Crashes(SitesInProcess(open_sites(tmp_path / "b", paths, **policy)), after), asked, Journal(path))
    outcome = train(SitesInProcess(open_sites(tmp_path / "b", paths, **policy)), asked, Journal(path))
    np.testing.assert_array_equal(outcome.model.coef, expected.model.coef)
    assert outcome.federation.rounds == expected.federation.rounds
    assert outcome.federation.replayed > 0
