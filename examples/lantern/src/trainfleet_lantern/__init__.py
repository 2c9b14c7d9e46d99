"""Lantern Cloud, which is invented, as a platform of trainfleet-exporter."""
