"""Secrets that can be recognised anywhere, and the search for them: see trainfleet_exporter.testing.planted."""

from trainfleet_exporter.testing.planted import SPECIAL, Planted, authorizations, hits, make_secret

__all__ = ["SPECIAL", "Planted", "authorizations", "hits", "make_secret"]
