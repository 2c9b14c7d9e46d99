"""Matchers and legends of the exporter's own metrics."""

from __future__ import annotations

TARGET = 'job=~"$job", instance=~"$instance"'
"""Matchers for series of a whole exporter."""
OWN = f'{TARGET}, provider=~"$provider"'
"""Matchers for series of one provider of an exporter."""
COLLECTOR = "{{provider}} · {{collector}}"
API = "{{provider}} · {{api}}"
