"""The exporter's own HTTP side: what it answers, and the server that it answers with."""
