"""What every simulated cloud plants in its answers, for tests of the exporter to search for."""

from __future__ import annotations

# What a job carries that no metric, log line or page may ever show.
PLANTED_SECRETS = (
    "planted-env-wandb-7f3a91",
    "planted-command-token-c20d58",
    "planted-registry-password-91be04",
)
