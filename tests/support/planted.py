"""Planted secrets and the search for them, from trainfleet_conformance.planted."""

from __future__ import annotations

from trainfleet_conformance.planted import SPECIAL, Planted, authorizations, hits, make_secret
from trainfleet_simulator import Simulator
from trainfleet_simulator.signatures import string_to_sign

__all__ = ["SPECIAL", "Planted", "authorizations", "hits", "make_secret", "quoted_proofs"]


def quoted_proofs(simulator: Simulator) -> dict[str, str]:
    """Return the signatures, tokens and hashes of requests that error responses have quoted since the last call."""
    quoted = simulator.take_quoted()
    hashes = dict.fromkeys(string_to_sign(asked).rpartition("\n")[2] for asked in quoted)
    found = authorizations(asked.headers for asked in quoted)
    return found | {f"request hash {number}": text for number, text in enumerate(hashes) if text}
