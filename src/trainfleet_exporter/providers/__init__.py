"""The clouds: one folder each, and what they share."""
