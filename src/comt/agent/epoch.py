"""Keys and shares of an epoch, a few dozen rounds, at one site: made once, used for one round each, then wiped."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from comt.errors import EquivocationError, ProtocolError
from comt.masking import seeds, shamir
from comt.masking.fixed_point import Words, accumulate
from comt.masking.identity import Directory, Identity
from comt.masking.messages import Advert, Begin, Dealt, Revealed, Roster, Terms

MAX_WINDOW = 4096


class Epoch:
    """One site's secrets during an epoch."""

    def __init__(self, begin: Begin, identity: Identity, terms: Terms) -> None:
        self.site, self.begin = identity.name, begin
        self._private = X25519PrivateKey.generate()
        public = self._private.public_key().public_bytes_raw()
        advert = Advert(self.site, begin, terms, public, identity.credential, b"")
        self.advert = replace(advert, signature=identity.sign(advert.statement()))
        self.roster: Roster | None = None
        self.digest = b""
        self.pairs: dict[str, seeds.Pair] = {}
        self.own: NDArray[np.uint8] = np.empty((0, seeds.SEED), np.uint8)
        #: by dealer: (sites, window, 32), this site's share of the dealer's seeds
        self.shares: dict[str, NDArray[np.uint8]] = {}
        self.ready = False
        #: known to all sites and not to the coordinator, once shares have been received
        self.common = b""
        self._part = secrets.token_bytes(seeds.SEED)
        self._wiped = 0

    @property
    def sites(self) -> tuple[str, ...]:
        """Names on the roster, in order."""
        return self.roster.sites if self.roster is not None else ()

    @property
    def threshold(self) -> int:
        """How many sites are needed to unmask."""
        return seeds.threshold(len(self.sites))

    def terms(self, sites: tuple[str, ...]) -> list[Terms]:
        """Return the terms of some sites on the roster."""
        assert self.roster is not None
        return [advert.terms for advert in self.roster.adverts if advert.site in sites]

    def place(self, round_number: int) -> int:
        """Return which of the epoch's rounds it is."""
        return round_number - self.begin.first_round

    def check_roster(self, roster: Roster, directory: Directory) -> None:
        """Believe a roster only if every key on it is signed by its site for this very epoch."""
        sites = roster.sites
        if list(sites) != sorted(set(sites)) or len(sites) > shamir.MAX_HOLDERS:
            raise ProtocolError(f"site {self.site} was sent a roster that is not in order; update the coordinator.")
        if self.advert not in roster.adverts:
            raise EquivocationError(
                f"site {self.site} does not find its own key in the roster: the coordinator has replaced it; nothing was sent."
            )
        for advert in roster.adverts:
            if advert.begin != self.begin:
                raise EquivocationError(
                    f"site {advert.site} was told of another epoch than site {self.site} by the coordinator; nothing was sent."
                )
            directory.check(advert.site, advert.credential, advert.statement(), advert.signature)

    def deal(self, roster: Roster) -> Dealt:
        """Agree on secrets with everybody on the roster, and deal shares of all seeds of the epoch."""
        self.roster, self.digest = roster, roster.digest()
        window = self.begin.window
        for advert in roster.adverts:
            if advert.site != self.site:
                self.pairs[advert.site] = seeds.agree(
                    self._private, advert.public, self.digest, self.site, advert.site, window
                )
        random = np.frombuffer(secrets.token_bytes(window * seeds.SEED), dtype=np.uint8)
        self.own = random.reshape(window, seeds.SEED).copy()
        table = np.stack([self.own if site == self.site else self.pairs[site].rounds for site in self.sites])
        commitments = b"".join(seeds.commitment(seed.tobytes()) for seed in table.reshape(-1, seeds.SEED))
        sealed: dict[str, bytes] = {}
        for site, part in zip(self.sites, shamir.share(table, self.threshold, len(self.sites)), strict=True):
            if site == self.site:
                self.shares[site] = part
            else:
                sealed[site] = self.pairs[site].sealing.encrypt(
                    bytes(12), part.tobytes() + self._part, b"shares" + self.digest
                )
        return Dealt(sealed, np.frombuffer(commitments, dtype=np.uint8).reshape(table.shape))

    def receive(self, parcels: dict[str, bytes]) -> None:
        """Open the shares that others have dealt to this site, and what each has added to the common secret."""
        common = {self.site: self._part}
        shape = (len(self.sites), self.begin.window, seeds.SEED)
        for dealer, sealed in parcels.items():
            if dealer not in self.pairs:
                raise ProtocolError(f"site {self.site} was sent shares of {dealer}, who is not in the roster.")
            opened = self.open(dealer, 0, sealed, b"shares" + self.digest)
            size = int(np.prod(shape))
            if len(opened) != size + seeds.SEED:
                raise ProtocolError(f"site {dealer} dealt shares of the wrong size; have it update its software.")
            self.shares[dealer] = np.frombuffer(opened, dtype=np.uint8, count=size).reshape(shape).copy()
            common[dealer] = opened[size:]
        self.common = seeds.derive(self.digest, b"common", *(common[site] for site in sorted(common)))
        self.ready = True

    def seal(self, receiver: str, number: int, content: bytes) -> bytes:
        """Seal a note of a round for another site."""
        return self.pairs[receiver].sealing.encrypt(number.to_bytes(12, "little"), content, b"note")

    def open(self, sender: str, number: int, sealed: bytes, context: bytes = b"note") -> bytes:
        """Open what another site sealed for this one."""
        try:
            return self.pairs[sender].opening.decrypt(number.to_bytes(12, "little"), sealed, context)
        except (InvalidTag, ValueError):
            raise EquivocationError(
                f"site {self.site} cannot open what site {sender} sealed for it, so the coordinator has changed it or showed "
                f"{sender} another roster; nothing was revealed."
            ) from None

    def mask(self, words: Words, place: int, participants: tuple[str, ...], context: bytes) -> None:
        """Add the self-mask and all pair masks of a round, in place."""
        own = seeds.derive(self.own[place].tobytes(), b"self", context)
        accumulate(
            words, seeds.masks([(own, 1), *self._pair_keys(b"pair", place, participants, context)], words.shape[1])
        )

    def receipt_key(self, context: bytes) -> bytes:
        """Return what the receipts of a round are made with: known to sites only."""
        return seeds.derive(self.common, b"receipt", context)

    def mask_receipt(self, words: Words, place: int, participants: tuple[str, ...], context: bytes) -> None:
        """Add pair masks only: receipts are opened by sites, from all of them together."""
        accumulate(words, seeds.masks(self._pair_keys(b"receipt", place, participants, context), words.shape[1]))

    def _pair_keys(
        self, purpose: bytes, place: int, participants: tuple[str, ...], context: bytes
    ) -> list[tuple[bytes, int]]:
        return [
            (seeds.derive(self.pairs[site].rounds[place].tobytes(), purpose, context), 1 if self.site < site else -1)
            for site in participants
            if site != self.site
        ]

    def reveal(self, place: int, survivors: tuple[str, ...], silent: tuple[str, ...]) -> Revealed:
        """Give the shares of one round away, of each site either the one kind or the other, and wipe the round."""
        number = {site: index for index, site in enumerate(self.sites)}
        rows = [number[site] for site in survivors]
        pairs = np.empty((len(silent), len(survivors), seeds.SEED), dtype=np.uint8)
        for index, site in enumerate(silent):
            pairs[index] = self.shares[site][rows, place]
        revealed = Revealed(np.stack([self.shares[site][number[site], place] for site in survivors]), pairs)
        # what is over cannot be opened any more, not even by whoever steals this machine
        over = slice(self._wiped, place + 1)
        for table in self.shares.values():
            table[:, over] = 0
        for pair in self.pairs.values():
            pair.rounds[over] = 0
        self.own[over] = 0
        self._wiped = place + 1
        return revealed
