"""What a coordinator may try on the messages of secure summation, and what it gets: nothing."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.x509.oid import NameOID

from comt import wire
from comt.agent import Agent, ArrayRows, Policy
from comt.agent.site import Site
from comt.errors import EquivocationError, GateError, InputError, ProtocolError
from comt.federation import LocalFederation
from comt.federation.channel import LocalChannel
from comt.masking import seeds, shamir
from comt.masking.fixed_point import Layout, accumulate
from comt.masking.identity import Authority, CertificateIdentity, KeyIdentity
from comt.masking.messages import (
    MESSAGES,
    Advert,
    Agree,
    Ask,
    Begin,
    Dealt,
    Masked,
    Refused,
    Revealed,
    Roster,
    Unmask,
    round_context,
)
from comt.preparation import Preparation
from comt.queries import DualSums, Histogram, Spread
from masked_sites import BadChannel, MaskedFederation, make_sites, mask_federation
from teaching import is_one_sentence, random_data, split_agents

DATA = random_data("squared", n=120, d=2, m=20, seed=3)
QUESTION = Spread(center=np.zeros(3))


def tell(site, message):
    """Hand a message to a site and read its reply."""
    return wire.unpack(site.handle(wire.pack(message)), MESSAGES)


def refused(site, message, words):
    reply = tell(site, message)
    assert isinstance(reply, Refused), reply
    assert words in reply.reason
    return reply


def last_request(channel, kind, name="agent-0"):
    return [request for site, request, _ in channel.seen if site == name and isinstance(request, kind)][-1]


def ready(n=4, **kwargs):
    """Return sites after one whole round, with their channel."""
    sites = make_sites(split_agents(DATA, n, **kwargs))
    channel = BadChannel(sites)
    federation = MaskedFederation(channel)
    federation.sum(QUESTION)
    return sites, channel, federation


# masked messages


def test_masked_messages_are_uniform_and_never_repeat():
    """Answers that are all zero give messages that look like noise, another one every time."""
    agents = [Agent(name, ArrayRows(np.zeros((10, 40)), np.zeros(10))) for name in "abc"]
    channel = BadChannel(make_sites(agents))
    federation = MaskedFederation(channel, window=3)
    question = Histogram(n_columns=41)
    for _ in range(5):
        federation.sum(question)
    messages = [reply.words.tobytes() for _, _, reply in channel.seen if isinstance(reply, Masked)]
    assert len(messages) == 15
    for message in messages:
        counts = np.bincount(np.frombuffer(message, dtype=np.uint8), minlength=256)
        expected = len(message) / 256
        assert ((counts - expected) ** 2 / expected).sum() < 400  # chi-square, 255 degrees of freedom: 1e-8
    blocks = {message[place : place + 16] for message in messages for place in range(0, len(message), 16)}
    assert len(blocks) == sum(len(message) // 16 for message in messages)  # no 128-bit word occurs twice


def test_one_message_less_tells_nothing_about_the_sum():
    """Without one site's message the rest stays masked: pair masks are left in it."""
    sites = make_sites(split_agents(DATA, 3))
    channel = BadChannel(sites)
    MaskedFederation(channel).sum(QUESTION)
    words = {name: reply.words for name, _, reply in channel.seen if isinstance(reply, Masked)}
    layout = Layout(QUESTION.shapes(), {}, 3)
    total = np.zeros_like(words["agent-0"])
    accumulate(total, [(words["agent-0"], 1), (words["agent-1"], 1)])
    with pytest.raises(ProtocolError):
        layout.decode(total)


def test_a_late_answer_stays_hidden():
    """agent-3's answer is withheld, its pair masks are opened; then the coordinator takes the answer out of its drawer."""
    sites = make_sites(split_agents(DATA, 5))
    by_name = {site.name: site for site in sites}
    drawer = {}

    class Withholding(BadChannel):
        def ask(self, messages):
            replies = super().ask(messages)
            if self.seen and isinstance(self.seen[-1][1], Ask):
                drawer["late"] = wire.unpack(replies.pop("agent-3"), MESSAGES)
            return replies

    channel = Withholding(sites)
    federation = MaskedFederation(channel)
    federation.sum(QUESTION)
    assert federation.dropped == ["agent-3"]
    revealed = {name: reply for name, _, reply in channel.seen if isinstance(reply, Revealed)}
    ask = last_request(channel, Ask)
    roster = last_request(channel, Roster)
    context = round_context(roster.digest(), wire.pack(ask))
    # everything that can be taken off with what was revealed
    words = drawer["late"].words.copy()
    survivors = [name for name in ask.participants if name != "agent-3"]
    number = {name: index + 1 for index, name in enumerate(roster.sites)}
    needed = seeds.threshold(5)
    table = shamir.recover({number[name]: revealed[name].pairs[0] for name in survivors[:needed]})
    keys = [
        (seeds.derive(seed.tobytes(), b"pair", context), -1 if name > "agent-3" else 1)
        for name, seed in zip(survivors, table, strict=True)
    ]
    accumulate(words, seeds.masks(keys, words.shape[1]))
    honest = Layout(QUESTION.shapes(), {}, 5).encode(by_name["agent-3"].agent.answer(QUESTION, 0).arrays)
    assert not (words == honest).any()  # the self-mask is left on every word
    # the self-mask is all that is left, and only agent-3 could take it off
    seed = by_name["agent-3"]._epoch.own[0].tobytes()
    opened = words.copy()
    accumulate(opened, seeds.masks([(seeds.derive(seed, b"self", context), -1)], words.shape[1]))
    np.testing.assert_array_equal(opened, honest)
    assert all(reply.own.shape == (4, 32) for reply in revealed.values())  # of the four survivors, in their order
    # asking for it afterwards, in any way
    for name in survivors:
        site = by_name[name]
        unmask = last_request(channel, Unmask, name)
        refused(site, replace(unmask, survivors=ask.participants), "two lists of survivors")
        refused(site, Agree(ask.round, ask.participants), "two lists of survivors")
        again = tell(site, unmask)  # the same question gets the same shares, and no others
        np.testing.assert_array_equal(again.own, revealed[name].own)
        np.testing.assert_array_equal(again.pairs, revealed[name].pairs)


def test_never_both_kinds_of_shares_even_if_sites_are_told_different_lists():
    """Two groups are told different stories; neither kind of share reaches the threshold."""
    sites = make_sites(split_agents(DATA, 6))
    channel = BadChannel(sites)
    federation = MaskedFederation(channel)
    federation.sum(QUESTION)
    needed = seeds.threshold(6)
    epoch_ask = last_request(channel, Ask)
    ask = replace(epoch_ask, round=epoch_ask.round + 1)
    replies = {site.name: tell(site, ask) for site in sites}
    names = ask.participants
    without = tuple(name for name in names if name != "agent-0")
    own, pairs, signatures = 0, 0, {}
    for site in sites[1:4]:
        reply = tell(site, Agree(ask.round, without))
        signatures[site.name] = reply.signature
    for site in sites:
        notes = {peer: replies[peer].notes[site.name] for peer in names if peer != site.name}
        listed = without if site.name in signatures else names
        reply = tell(site, Unmask(ask.round, listed, {p: n for p, n in notes.items() if p in listed}, signatures))
        own += isinstance(reply, Revealed) and listed == names
        pairs += isinstance(reply, Revealed) and len(reply.pairs) > 0
    assert own == 3 < needed
    assert pairs == 0  # three signatures are fewer than five
    reply = tell(sites[4], Agree(ask.round, without))  # the others have already voted by opening
    assert isinstance(reply, Refused)


def test_a_list_of_survivors_needs_genuine_signatures():
    sites, channel, _ = ready(4)
    ask = replace(last_request(channel, Ask), round=1)
    replies = {site.name: tell(site, ask) for site in sites}
    survivors = ("agent-0", "agent-1", "agent-2")
    notes = {name: replies[name].notes["agent-0"] for name in survivors[1:]}
    signatures = {site.name: tell(site, Agree(1, survivors)).signature for site in sites[:3]}
    forged = signatures | {"agent-2": signatures["agent-1"]}
    refused(sites[0], Unmask(1, survivors, notes, {}), "fewer than 3 signatures")
    refused(sites[0], Unmask(1, survivors, notes, dict(list(signatures.items())[:2])), "fewer than 3 signatures")
    refused(sites[0], Unmask(1, survivors, notes, forged), "not signed with that site's key")
    assert isinstance(tell(sites[0], Unmask(1, survivors, notes, signatures)), Revealed)


def test_too_few_survivors_open_nothing():
    sites, channel, _ = ready(4)
    ask = replace(last_request(channel, Ask), round=1)
    for site in sites:
        tell(site, ask)
    refused(sites[0], Agree(1, ("agent-0", "agent-1")), "too few")
    refused(sites[0], Agree(1, ("agent-1", "agent-2", "agent-3")), "not a part")
    refused(sites[0], Agree(1, ("agent-0", "agent-1", "mallory")), "not a part")


# keys


def test_a_substituted_key_is_noticed():
    """The man in the middle, once with the site's old signature and once with a signature of his own."""
    private = X25519PrivateKey.generate()
    mallory = KeyIdentity("agent-1")
    for signature_of in (None, mallory):

        def substitute(name, message, signature_of=signature_of):
            if not isinstance(message, Roster) or name == "agent-1":
                return message
            adverts = list(message.adverts)
            forged = replace(adverts[1], public=private.public_key().public_bytes_raw())
            if signature_of is not None:
                forged = replace(forged, credential=mallory.credential, signature=mallory.sign(forged.statement()))
            adverts[1] = forged
            return Roster(tuple(adverts))

        channel = BadChannel(make_sites(split_agents(DATA, 3)), request=substitute)
        with pytest.raises(ProtocolError, match="agent-1 is not signed with that site's key") as caught:
            MaskedFederation(channel).sum(QUESTION)
        assert is_one_sentence(caught.value)
        assert not any(isinstance(reply, Masked) for _, _, reply in channel.seen)


def test_a_site_finds_its_own_key_replaced():
    def substitute(name, message):
        if not isinstance(message, Roster) or name != "agent-1":
            return message
        adverts = list(message.adverts)
        adverts[1] = replace(adverts[1], public=bytes(32))
        return Roster(tuple(adverts))

    channel = BadChannel(make_sites(split_agents(DATA, 3)), request=substitute)
    with pytest.raises(EquivocationError, match="own key"):
        MaskedFederation(channel).sum(QUESTION)


def test_sites_shown_different_rosters_share_nothing():
    def substitute(name, message):
        if isinstance(message, Roster) and name == "agent-0":
            return Roster(tuple(advert for advert in message.adverts if advert.site != "agent-3"))
        return message

    channel = BadChannel(make_sites(split_agents(DATA, 4)), request=substitute)
    with pytest.raises(ProtocolError):
        MaskedFederation(channel).sum(QUESTION)
    assert not any(isinstance(reply, Masked) for _, _, reply in channel.seen)


def test_an_old_key_cannot_be_used_again():
    sites, channel, _ = ready(3)
    refused(sites[0], last_request(channel, Begin), "over or not due")
    refused(sites[0], last_request(channel, Roster), "over or not due")
    old = next(reply for name, _, reply in channel.seen if name == "agent-1" and isinstance(reply, Advert))
    fresh = Begin(old.begin.training, 1, 64, 64)
    adverts = [tell(site, fresh) for site in sites]
    adverts[1] = old
    refused(sites[0], Roster(tuple(adverts)), "another epoch")


def authority(name="root"):
    key = ec.generate_private_key(ec.SECP256R1())
    return key, certificate(name, key.public_key(), name, key)


def certificate(name, public, issuer, issuer_key, days=10):
    now = datetime.now(UTC)
    subject, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)]) for who in (name, issuer))
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(by).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=20)).not_valid_after(now + timedelta(days=days))
    return builder.sign(issuer_key, hashes.SHA256())


def pem(thing):
    if isinstance(thing, x509.Certificate):
        return thing.public_bytes(serialization.Encoding.PEM)
    return thing.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def certified_sites(agents, issue):
    root_key, root = authority()
    sites = []
    for agent, make in zip(agents, issue, strict=True):
        key = make()
        own = certificate(agent.name, key.public_key(), "root", root_key)
        sites.append(Site(agent, CertificateIdentity(pem(own), pem(key)), Authority(pem(root))))
    return sites, root_key


KINDS = [
    lambda: rsa.generate_private_key(65537, 2048),
    lambda: ec.generate_private_key(ec.SECP256R1()),
    Ed25519PrivateKey.generate,
]


def test_sites_sign_with_the_certificates_of_their_kits():
    agents = split_agents(DATA, 4)
    sites, _ = certified_sites(agents, [*KINDS, KINDS[1]])
    channel = BadChannel(sites, {"agent-3": "Ask"})
    found = MaskedFederation(channel).sum(QUESTION)
    np.testing.assert_allclose(found["second"], LocalFederation(agents[:3]).sum(QUESTION)["second"])


@pytest.mark.parametrize("fault", ["foreign root", "another's name", "out of date", "self-signed", "garbage"])
def test_certificates_that_do_not_count(fault):
    root_key, root = authority()
    other_key, _ = authority("other")
    key = ec.generate_private_key(ec.SECP256R1())
    made = {
        "foreign root": lambda: certificate("site", key.public_key(), "root", other_key),
        "another's name": lambda: certificate("north", key.public_key(), "root", root_key),
        "out of date": lambda: certificate("site", key.public_key(), "root", root_key, days=-5),
        "self-signed": lambda: certificate("site", key.public_key(), "site", key),
    }
    credential = pem(made[fault]()) if fault in made else b"no certificate"
    signature = key.sign(b"statement", ec.ECDSA(hashes.SHA256()))
    with pytest.raises(ProtocolError):
        Authority(pem(root)).check("site", credential, b"statement", signature)
    good = certificate("site", key.public_key(), "root", root_key)
    Authority(pem(root)).check("site", pem(good), b"statement", signature)
    with pytest.raises(ProtocolError):
        Authority(pem(root)).check("site", pem(good), b"another statement", signature)


def test_a_site_has_the_key_of_its_own_name():
    with pytest.raises(InputError, match="its own name"):
        Site(split_agents(DATA, 1)[0], KeyIdentity("mallory"), None)


# rounds


def test_replayed_and_stale_rounds_are_refused():
    sites, channel, federation = ready(3)
    old = last_request(channel, Ask)
    federation.sum(Histogram(n_columns=3))
    refused(sites[0], old, "round 0, which is over")
    refused(sites[0], replace(old, round=64), "round 64")
    refused(sites[0], replace(old, round=5, epoch=7), "another training")
    refused(sites[0], replace(old, round=5, training="other"), "another training")
    refused(sites[0], Agree(0, old.participants), "unmasking round 0")
    current = last_request(channel, Ask)
    refused(sites[0], replace(current, query=wire.pack(Histogram(n_columns=2))), "over or not due")
    assert len(sites[0].agent.ledger) == 3 + 1  # nothing more has left


def test_the_same_question_again_gets_the_same_message():
    sites, channel, _ = ready(3)
    ask = last_request(channel, Ask)
    assert sites[0].handle(wire.pack(ask)) == sites[0].handle(wire.pack(ask))
    assert len(sites[0].agent.ledger) == 3


@pytest.mark.parametrize("changed", ["query", "scales", "participants"])
def test_an_equivocating_coordinator_is_named_and_learns_nothing(changed):
    other = {
        "query": wire.pack(Spread(center=np.full(3, 1e-9))),
        "scales": {"first": 60},
        "participants": ("agent-0", "agent-1", "agent-2"),
    }

    def lie(name, message):
        if isinstance(message, Ask) and name == "agent-2":
            return replace(message, **{changed: other[changed]})
        return message

    sites = make_sites(split_agents(DATA, 4))
    channel = BadChannel(sites, request=lie)
    with pytest.raises(EquivocationError, match="coordinator") as caught:
        MaskedFederation(channel).sum(QUESTION)
    assert is_one_sentence(caught.value)
    assert not any(isinstance(reply, Revealed) for _, _, reply in channel.seen)
    named = [refusal.reason for site in sites for refusal in site.agent.ledger.refusals]
    assert any("coordinator" in reason for reason in named)  # the owner can read it too


def test_changed_notes_are_noticed():
    def tamper(name, message):
        if isinstance(message, Unmask) and name == "agent-1":
            notes = {peer: bytes(len(note)) for peer, note in message.notes.items()}
            return replace(message, notes=notes)
        return message

    with pytest.raises(EquivocationError, match="cannot open"):
        MaskedFederation(BadChannel(make_sites(split_agents(DATA, 3)), request=tamper)).sum(QUESTION)


def test_a_wrong_share_never_makes_a_wrong_sum():
    def lie(name, reply):
        if isinstance(reply, Revealed) and name == "agent-1":
            return replace(reply, own=np.zeros_like(reply.own))
        return reply

    with pytest.raises(ProtocolError, match="committed"):
        MaskedFederation(BadChannel(make_sites(split_agents(DATA, 3)), reply=lie)).sum(QUESTION)


def test_changed_shares_are_noticed_by_their_holder():
    def tamper(name, reply):
        if isinstance(reply, Dealt) and name == "agent-0":
            return replace(reply, sealed=dict.fromkeys(reply.sealed, bytes(40)))
        return reply

    with pytest.raises(EquivocationError, match="cannot open what site agent-0"):
        MaskedFederation(BadChannel(make_sites(split_agents(DATA, 3)), reply=tamper)).sum(QUESTION)


# what the gate says about sums over sites


def test_two_sites_are_too_few_unless_the_owner_says_so():
    with pytest.raises(GateError, match="each of two can subtract its own part") as caught:
        mask_federation(split_agents(DATA, 2)).sum(QUESTION)
    assert is_one_sentence(caught.value)
    allowed = split_agents(DATA, 2, policy=Policy(min_participants=2))
    found = mask_federation(allowed).sum(QUESTION)
    np.testing.assert_allclose(found["first"], LocalFederation(allowed).sum(QUESTION)["first"])


def test_sums_before_and_after_a_site_left_are_not_both_opened():
    """Sums over five and over four sites, subtracted, are the fifth's own answer; at a nearby model, nearly."""
    sites = make_sites(split_agents(DATA, 5, policy=Policy(allow_leavers=False)))
    channel = BadChannel(sites)
    federation = MaskedFederation(channel)
    federation.sum(QUESTION)
    federation.sum(Histogram(n_columns=3))
    channel.dies_at = {"agent-4": "Ask"}
    with pytest.raises(GateError, match="have left or joined"):
        federation.sum(Spread(center=np.full(3, 1e-12)))
    # nor does a new training among the four
    with pytest.raises(GateError, match="have left or joined"):
        MaskedFederation(LocalChannel(sites[:4])).sum(Spread(center=np.full(3, 1e-12)))
    MaskedFederation(LocalChannel(sites)).sum(QUESTION)


def test_a_site_that_leaves_before_anything_is_opened_is_no_loss():
    agents = split_agents(DATA, 5, policy=Policy(allow_leavers=False))
    channel = BadChannel(make_sites(agents), {"agent-4": "Ask"})
    federation = MaskedFederation(channel)
    federation.sum(QUESTION)
    federation.sum(Histogram(n_columns=3))
    assert federation.agents == ("agent-0", "agent-1", "agent-2", "agent-3")


def test_many_may_leave_at_once():
    """Three leavers hide in their own sum."""
    sites = make_sites(split_agents(DATA, 9, policy=Policy(allow_leavers=False)))
    MaskedFederation(LocalChannel(sites)).sum(QUESTION)
    MaskedFederation(LocalChannel(sites[:6])).sum(QUESTION)
    with pytest.raises(GateError):
        MaskedFederation(LocalChannel(sites[:7])).sum(QUESTION)


@pytest.mark.parametrize(
    "strict",
    [Policy(min_rows=1000), Policy(min_trusted_rows=1000), Policy(min_participants=6)],
    ids=["rows", "trusted", "sites"],
)
def test_everybody_holds_to_the_strictest_terms(strict):
    """Four lenient sites could open a sum of five; they do not, because the fifth would not have it."""
    agents = split_agents(DATA, 5)
    agents[2] = Agent("agent-2", agents[2].rows, strict)
    sites = make_sites(agents)
    channel = BadChannel(sites)
    question = dual()
    with pytest.raises(GateError):
        MaskedFederation(channel).sum(question)
    # a coordinator that goes on in spite of the refusal gets no share from anybody
    assert not any(isinstance(reply, Revealed) for _, _, reply in channel.seen)
    for name, request, _ in list(channel.seen):
        if isinstance(request, Unmask):
            reply = tell(next(site for site in sites if site.name == name), request)
            assert isinstance(reply, Refused)


def dual():
    zero = np.zeros((1, 2))
    return DualSums(
        loss_name="squared",
        preparation=Preparation.identity(2),
        r=zero,
        theta=zero,
        lambda_alpha=np.zeros(1),
        lambda_z=np.full(1, np.inf),
    )


def test_refusals_are_no_yardstick():
    """Who binary-searches for what is refused gets as many bits as the owner allows, then silence."""
    agents = [
        Agent(name, ArrayRows(np.full((20, 1), 3.0e10), np.zeros(20)), Policy(max_refusals=3, min_participants=3))
        for name in "abc"
    ]
    sites = make_sites(agents)
    channel = BadChannel(sites)
    federation = MaskedFederation(channel)
    for number in range(10):  # Σ(x − c)² does not fit the default scale
        federation._scales.clear()
        with contextlib.suppress(GateError):
            federation.sum(Spread(center=np.full(2, float(number))))
    assert sum(isinstance(reply, Refused) and reply.kind == "range" for _, _, reply in channel.seen) <= 3 * len(sites)
    with pytest.raises(GateError, match="answers no more"):
        federation.sum(Histogram(n_columns=2))


def test_finer_scales_are_refused():
    sites, channel, _ = ready(3)
    ask = replace(last_request(channel, Ask), round=1, scales={"first": 120})
    refused(sites[0], ask, "out of range")


def test_strangers_are_not_summed_with():
    policy = Policy(peers=frozenset({"agent-0", "agent-1", "agent-2"}))
    mask_federation(split_agents(DATA, 3, policy=policy)).sum(QUESTION)
    with pytest.raises(GateError, match=r"\['agent-3'\]"):
        mask_federation(split_agents(DATA, 4, policy=policy)).sum(QUESTION)


def test_a_site_that_answers_only_under_masks():
    agents = split_agents(DATA, 3, policy=Policy(masked=True))
    mask_federation(agents).sum(QUESTION)
    with pytest.raises(GateError, match="only under masks"):
        LocalFederation(agents).sum(QUESTION)


def test_failures_inside_a_site_tell_nothing():
    class Secretive(ArrayRows):
        def blocks(self):
            raise RuntimeError("row 17: patient Miller")

    agents = split_agents(DATA, 3)
    agents[0] = Agent("agent-0", Secretive(np.zeros((5, 2)), np.zeros(5)))
    with pytest.raises(ProtocolError, match="agent-0 failed with RuntimeError") as caught:
        MaskedFederation(LocalChannel(make_sites(agents))).sum(QUESTION)
    assert "Miller" not in str(caught.value)
