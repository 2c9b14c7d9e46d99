"""The exporter's own HTTP side: its endpoints, and the server and its limits."""
