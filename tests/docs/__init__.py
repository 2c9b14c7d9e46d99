"""Tests of the documents: their commands run, the names in them exist, and generated parts are up to date."""
