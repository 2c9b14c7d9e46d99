"""What the exporter's own metrics are asked for with."""

from __future__ import annotations

TARGET = 'job=~"$job", instance=~"$instance"'
"""The matchers of what is of an exporter as a whole."""
OWN = f'{TARGET}, provider=~"$provider"'
"""The matchers of what is of one of its providers."""
COLLECTOR = "{{provider}} · {{collector}}"
API = "{{provider}} · {{api}}"
