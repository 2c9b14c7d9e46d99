"""Matchers and legends of the exporter's own metrics."""

from __future__ import annotations

TARGET = 'job=~"$job", instance=~"$instance"'
"""The matchers of series of a whole exporter."""
OWN = f'{TARGET}, provider=~"$provider"'
"""The matchers of series of one of its providers."""
COLLECTOR = "{{provider}} · {{collector}}"
API = "{{provider}} · {{api}}"
