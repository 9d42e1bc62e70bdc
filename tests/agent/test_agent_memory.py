"""Attacks by questions that are close to each other, each with what it gets; and a gate that remembers after a restart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from comt.agent import Agent, ArrayRows, Policy
from comt.agent.ledger import Ledger
from comt.agent.noise import Accountant
from comt.agent.record import FILE, Record
from comt.errors import GateError, InputError
from comt.federation import LocalFederation
from comt.federation.channel import LocalChannel
from comt.federation.masked import MaskedFederation
from comt.masking.messages import Terms
from comt.noise import Noise
from comt.preparation import Preparation
from comt.problem import TeachingProblem
from comt.queries import CurvatureTimes, DualSums, Keep, NoisyLabelSums, RobustMoments, SubsetSum, TrustedSums
from comt.server.training import Settings, train
from masked_sites import make_sites, mask_federation
from teaching import is_one_sentence, random_data, split_agents

RNG = np.random.default_rng(5)
WIDTH = 6
ROWS = [RNG.laplace(size=(40, WIDTH)) for _ in range(4)]
MODEL = RNG.normal(size=WIDTH)
TARGETS = [part @ MODEL + RNG.normal(size=40) for part in ROWS]
TRUSTED = [RNG.laplace(size=(15, WIDTH)) for _ in range(4)]
ALL = np.concatenate(ROWS)
#: before nearly equal models were compared: everything else as by default
BEFORE = replace(Policy.protective(), max_close=None)


def agents(policy, signs=False):
    label = np.sign if signs else np.asarray
    return [
        Agent(
            f"site-{k}",
            ArrayRows(ROWS[k], label(TARGETS[k]), TRUSTED[k], label(TRUSTED[k] @ MODEL)),
            policy,
        )
        for k in range(4)
    ]


def cosine(found, rows=ALL):
    return float(np.abs(rows @ found / np.linalg.norm(rows, axis=1) / max(np.linalg.norm(found), 1e-300)).max())


def refused(policy, attack, words, signs=False):
    with pytest.raises(GateError, match=words) as caught:
        attack(mask_federation(agents(policy, signs)))
    assert is_one_sentence(caught.value)


# top 30 at one model, top 31 at another one that is the same for all that matters


def nested_at_nearby_models(federation):
    misfit = np.sort(np.abs(np.concatenate(TARGETS)))[::-1]
    sums = []
    for place, model in ((30, np.zeros(WIDTH)), (31, np.full(WIDTH, 1e-10))):
        query = SubsetSum(
            loss_name="squared", preparation=Preparation.identity(WIDTH), r=model[None, :], lambda_alpha=0.0,
            lambda_z=np.inf, thresholds=np.array([(misfit[place - 1] + misfit[place]) / 2]),
        )  # fmt: skip
        sums.append(federation.sum(query))
    assert sums[1]["rows"][0] - sums[0]["rows"][0] == 1
    return cosine(sums[1]["vector"][0] - sums[0]["vector"][0])


def test_nested_sums_at_nearby_models():
    assert nested_at_nearby_models(mask_federation(agents(Policy()))) > 0.9999
    assert nested_at_nearby_models(mask_federation(agents(BEFORE))) > 0.9999  # masks and minimums do not help
    refused(Policy.protective(), nested_at_nearby_models, "differ from earlier ones by fewer than 10 rows")


def kept_at_nearby_models(federation):
    losses = np.sort(0.5 * np.concatenate(TARGETS) ** 2)
    sums = []
    for place, model in ((100, np.zeros((1, WIDTH))), (101, np.full((1, WIDTH), 1e-10))):
        keep = Keep("loss", model, np.array([(losses[place - 1] + losses[place]) / 2]))
        query = DualSums(
            loss_name="squared", preparation=Preparation.identity(WIDTH), r=model, theta=model,
            lambda_alpha=np.zeros(1), lambda_z=np.full(1, np.inf), keep=keep,
        )  # fmt: skip
        sums.append(federation.sum(query))
    return cosine(np.linalg.eigh(sums[1]["weight_xx"][0] - sums[0]["weight_xx"][0])[1][:, -1])


def test_kept_rows_at_nearby_models():
    assert kept_at_nearby_models(mask_federation(agents(Policy()))) > 0.9999
    assert kept_at_nearby_models(mask_federation(agents(BEFORE))) > 0.9999
    refused(Policy.protective(), kept_at_nearby_models, "differ from earlier ones by fewer than 10 rows")


def fitting_at_different_models(federation):
    """Moments know no model: any two models whose sets differ by one row will do."""
    targets = np.concatenate(TARGETS)
    other = 1e-3 * np.arange(1.0, WIDTH + 1)
    sums = []
    for place, model in ((100, np.zeros(WIDTH)), (101, other)):
        errors = np.sort(np.abs(targets - ALL @ model))
        query = RobustMoments(
            loss_name="squared", preparation=Preparation.identity(WIDTH), theta=model[None, :],
            limit=np.array([(errors[place - 1] + errors[place]) / 2]), smooth=np.zeros(1, dtype=bool),
        )  # fmt: skip
        sums.append(federation.sum(query)["moments"][0])
    values, vectors = np.linalg.eigh((sums[1] - sums[0])[:WIDTH, :WIDTH])
    return cosine(vectors[:, np.argmax(np.abs(values))])


def test_moments_of_rows_that_fit_different_models():
    assert fitting_at_different_models(mask_federation(agents(Policy()))) > 0.9999
    refused(Policy.protective(), fitting_at_different_models, "a subtraction would show")


# logistic sums at models so large that every row is decided


def separating():
    """Two directions with exactly one row between them, and that row."""
    direction = np.eye(WIDTH)[0]
    angles = np.arctan2(
        ALL[:, 0], ALL[:, 1]
    )  # a turn by φ in the first two coordinates moves the boundary over a row at −angle
    order = np.argsort(np.abs(angles))
    first, second = np.abs(angles[order[:2]])
    turn = (first + second) / 2 * np.sign(angles[order[0]])
    turned = direction.copy()
    turned[:2] = np.cos(turn), -np.sin(turn)
    crossed = np.flatnonzero(np.sign(ALL @ direction) != np.sign(ALL @ turned))
    return direction, turned, crossed


def decided(federation, size=1e6):
    direction, turned, crossed = separating()
    sums = []
    for model in (direction, turned):
        query = DualSums(
            loss_name="logistic", preparation=Preparation.identity(WIDTH), r=size * model[None, :],
            theta=np.zeros((1, WIDTH)), lambda_alpha=np.zeros(1), lambda_z=np.full(1, np.inf), curvature="none",
        )  # fmt: skip
        sums.append(federation.sum(query)["alpha_x"][0])
    return cosine(sums[1] - sums[0], ALL[crossed])


def test_two_models_with_one_row_between_them():
    assert len(separating()[2]) == 1
    assert decided(mask_federation(agents(Policy(), signs=True))) > 0.9999
    refused(Policy.protective(), decided, "fewer rows|differ from earlier", signs=True)


def one_soft_row(federation):
    """At a large model only rows beside the boundary bend: one question is enough."""
    row = ALL[7]
    model = np.eye(WIDTH)[1] - row * row[1] / (row @ row)  # its score is 0
    query = CurvatureTimes(
        loss_name="logistic", preparation=Preparation.identity(WIDTH), r=9e5 * model, theta=np.zeros(WIDTH),
        lambda_alpha=0.0, lambda_z=np.inf, along_r=np.ones(WIDTH), along_theta=np.zeros(WIDTH),
    )  # fmt: skip
    return cosine(federation.sum(query)["buggy"], row[None, :])


def test_the_one_row_beside_the_boundary():
    assert one_soft_row(mask_federation(agents(Policy(), signs=True))) > 0.9999
    refused(Policy.protective(), one_soft_row, "fewer rows than its owner asks for", signs=True)


def test_flips_that_one_row_decides():
    """Flips that follow the features so steeply that only one row is in doubt bend there alone."""
    row = ALL[7]
    axis = np.eye(WIDTH)[1] - row * row[1] / (row @ row)

    def attack(federation):
        query = NoisyLabelSums(
            loss_name="logistic", preparation=Preparation.identity(WIDTH), agents=tuple(f"site-{k}" for k in range(4)),
            theta=np.zeros((1, WIDTH)), weights=np.ones((1, 4)), flips=np.full((1, 4, 2), 0.5),
            axes=axis[None, :], leans=np.full((1, 2), 9e5),
        )  # fmt: skip
        # the bend of one row, whose label is as likely as not to be right: ¼ of it for either right label
        return float(federation.sum(query)["lean_bend"][0, :, 0, 0].sum())

    assert attack(mask_federation(agents(Policy(), signs=True))) == pytest.approx(0.25, abs=1e-6)
    refused(replace(Policy.protective(), by_agent=True), attack, "fewer rows than its owner asks for", signs=True)


def test_trusted_rows_are_protected_alike():
    row = TRUSTED[2][3]
    model = np.eye(WIDTH)[1] - row * row[1] / (row @ row)

    def attack(federation):
        query = TrustedSums(
            loss_name="logistic", preparation=Preparation.identity(WIDTH), theta=9e5 * model[None, :]
        )  # fmt: skip
        bend = federation.sum(query)["bend"][0]
        return cosine(np.linalg.eigh(bend)[1][:, -1], row[None, :])

    assert attack(mask_federation(agents(Policy(), signs=True))) > 0.9999
    refused(Policy.protective(), attack, "fewer rows than its owner asks for", signs=True)


# honest trainings


@pytest.mark.parametrize(
    "settings",
    [
        Settings(TeachingProblem("squared", 1.0, 3.0, intercept=True)),
        Settings(TeachingProblem("squared", 1.0, 3.0, lambda_z=20.0, intercept=True)),
        Settings(TeachingProblem("logistic", 1.0, 3.0, 0.1, 20.0, intercept=True)),
        Settings(TeachingProblem("squared", 1.0, 3.0, intercept=True), solver="newton-cg"),
        Settings(TeachingProblem("logistic", 1.0, 3.0, intercept=True), solver="newton-cg"),
        Settings(TeachingProblem("squared", 1.0, 3.0), solver="admm", tol=1e-4),
        Settings(TeachingProblem("squared", 1.0, 3.0, intercept=True), select=0.8),
    ],
    ids=["squared", "crafting", "logistic", "newton-cg", "logistic newton-cg", "admm", "select"],
)
@pytest.mark.filterwarnings("ignore::comt.errors.SelectionWarning")
def test_honest_trainings_pass_the_defaults(settings):
    data = random_data(settings.problem.loss_name, n=400, d=4, m=60, seed=0)
    protected = train(mask_federation(split_agents(data, 4, policy=Policy.protective())), settings)
    # bins of histograms are merged under the defaults, so scales differ a little; the same scales are compared elsewhere
    plain = train(LocalFederation(split_agents(data, 4)), settings)
    assert protected.rounds == pytest.approx(plain.rounds, abs=6)


def test_active_sets_and_trimming_need_the_owners_word():
    """λ_α > 0 leaves rows out, others in every round: two or three sums that are close."""
    settings = Settings(TeachingProblem("squared", 1.0, 3.0, 0.1, intercept=True))
    data = random_data("squared", n=400, d=4, m=60, seed=0)
    with pytest.raises(GateError, match="max_close"):
        train(mask_federation(split_agents(data, 4, policy=Policy.protective())), settings)
    allowed = replace(Policy.protective(), max_close=5)
    train(mask_federation(split_agents(data, 4, policy=allowed)), settings)


def test_the_strictest_site_decides():
    members = agents(BEFORE)
    members[2] = agents(Policy.protective())[2]
    with pytest.raises(GateError, match="more than 0 sums"):
        nested_at_nearby_models(mask_federation(members))
    assert Policy().terms().max_close == Terms.ANY


# after a restart


def test_a_restarted_site_remembers_sums(tmp_path):
    """The same model, one row apart, in another training after a restart."""
    misfit = np.sort(np.abs(np.concatenate(TARGETS)))[::-1]

    def top(place):
        return SubsetSum(
            loss_name="squared", preparation=Preparation.identity(WIDTH), r=np.zeros((1, WIDTH)), lambda_alpha=0.0,
            lambda_z=np.inf, thresholds=np.array([(misfit[place - 1] + misfit[place]) / 2]),
        )  # fmt: skip

    policy = Policy.protective()
    for k in range(4):
        (tmp_path / f"site-{k}").mkdir()

    def start():
        members = [
            Agent(agent.name, agent.rows, policy, Ledger(tmp_path / agent.name / "ledger.jsonl"))
            for agent in agents(policy)
        ]
        return MaskedFederation(LocalChannel(make_sites(members)))

    start().sum(top(30))
    with pytest.raises(GateError, match="a subtraction would show"):
        start().sum(top(31))
    start().sum(top(30))  # the same again shows nothing new
    for k in range(4):
        memory = tmp_path / f"site-{k}" / FILE
        assert memory.stat().st_mode & 0o077 == 0
        memory.unlink()
    start().sum(top(31))  # it was the memory that refused


def one(folder, policy):
    return Agent(
        "north", ArrayRows(ROWS[0], TARGETS[0], TRUSTED[0], TRUSTED[0] @ MODEL), policy, Ledger(folder / "l.jsonl")
    )


def question():
    return TrustedSums(loss_name="squared", preparation=Preparation.identity(WIDTH), theta=np.zeros((1, WIDTH)))


def test_rounds_and_refusals_are_counted_over_restarts(tmp_path):
    for number in (1, 2):
        one(tmp_path, Policy(max_rounds=2)).answer(question(), number)
    with pytest.raises(GateError, match="2 rounds"):
        one(tmp_path, Policy(max_rounds=2)).answer(question(), 3)
    for _ in range(2):
        with pytest.raises(GateError):
            one(tmp_path, Policy(min_rows=1000, max_refusals=3)).answer(question(), 4)
    with pytest.raises(GateError, match="answers no more"):
        one(tmp_path, Policy(max_refusals=3)).answer(question(), 5)


def test_a_privacy_budget_is_spent_once(tmp_path):
    """Also by answers before a restart, and with another multiplier then."""
    query = DualSums(
        loss_name="logistic", preparation=Preparation.identity(WIDTH), r=np.zeros((1, WIDTH)),
        theta=np.zeros((1, WIDTH)), lambda_alpha=np.zeros(1), lambda_z=np.full(1, np.inf), curvature="none",
    )  # fmt: skip
    one(tmp_path, Policy(noise=Noise(2.0, 4.0, 1.0))).answer(query, 1)
    later = one(tmp_path, Policy(noise=Noise(4.0, 4.0, 1.0, max_epsilon=4.0)))
    alone = Accountant(Noise(4.0, 4.0, 1.0))
    assert later.accountant.rounds == 1
    assert later.accountant.epsilon() > alone.epsilon(1) > 0.0
    affordable = next(count for count in range(20) if later.accountant.epsilon(count + 1) > 4.0)
    for number in range(affordable):
        later.answer(query, 2 + number)
    assert alone.epsilon(affordable + 1) < 4.0  # without the answer before the restart there would be more
    with pytest.raises(GateError, match="privacy budget"):
        later.answer(query, 99)


def test_sites_that_were_summed_with_are_remembered(tmp_path):
    for agent in agents(Policy()):
        (tmp_path / agent.name).mkdir()

    def start(count):
        members = [
            Agent(agent.name, agent.rows, Policy(allow_leavers=False), Ledger(tmp_path / agent.name / "l.jsonl"))
            for agent in agents(Policy())[:count]
        ]
        return MaskedFederation(LocalChannel(make_sites(members)))

    start(4).sum(question())
    with pytest.raises(GateError, match="have left or joined"):
        start(3).sum(question())
    start(4).sum(question())


def test_a_record_cut_short_is_dropped_and_a_damaged_one_stops_the_agent(tmp_path):
    path = tmp_path / FILE
    record = Record(path)
    record.add("cover", b"form", b"model", "t", None)
    record.add("cover", b"form", b"model", "t", bytes(100))
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    assert Record(path).events == [("cover", b"form", b"model", "t", None)]
    assert Record(path).events == [("cover", b"form", b"model", "t", None)]
    path.write_bytes(whole[:8] + bytes([whole[8] ^ 255]) + whole[9:])
    with pytest.raises(InputError, match="damaged") as caught:
        Record(path)
    assert is_one_sentence(caught.value)


def test_another_table_is_another_memory(tmp_path):
    """Rows of a table that has grown have other places, so nothing is compared with before."""
    one(tmp_path, Policy(min_rows=5)).answer(question(), 1)
    longer = ArrayRows(ROWS[0], TARGETS[0], TRUSTED[0][:-1], (TRUSTED[0] @ MODEL)[:-1])
    Agent("north", longer, Policy(min_rows=5), Ledger(tmp_path / "l.jsonl")).answer(question(), 2)
