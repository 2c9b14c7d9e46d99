"""Secrets are silent: in logs, pages, reprs and the texts of errors."""

from __future__ import annotations

from pathlib import Path

from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.faults import SILENCE
from trainfleet_conformance.mishaps import WHOLE
from trainfleet_exporter.config import redacted


class SecretChecks(ProviderCase):
    """Secrets. Under faults they are looked for as well: see FaultChecks."""

    def test_secret_none_is_in_logs_pages_or_reprs(self) -> None:
        """A good run, a run of refusals that quote everything, and what objects say of themselves."""
        (quoting,) = (mishap for mishap in WHOLE if mishap.name == "quoting")

        async def main(folder: Path) -> None:
            async with self.stage(folder) as stage:
                complain(["config() has no secret"] * (not self.secrets.secrets), "plant them by self.secret(name)")
                await stage.polls(1)
                await stage.scrape()
                stage.gateway.spoil = quoting.make
                await stage.polls(1)
                await stage.scrape()
                await stage.read_everything()
                exporter = stage.daemon.exporter
                said = [repr(exporter.config), str(exporter.config), redacted(exporter.config)]
                for provider in exporter.providers:
                    told = (provider.identity.origin, provider.endpoints, provider.facts, provider.name)
                    said += [repr(provider), str(provider), repr(provider.identity), repr(told)]
                    said += [repr(value) for value in getattr(provider, "__dict__", {}).values()]
                    said += [repr(collector) for collector in provider.collectors]
                for runner in exporter.runners:
                    said += [f"{error!s} {error!r}" for error in runner.errors]
                    said.append(repr(runner.last_error))
                complain(stage.leaks(self.secrets, objects="\n".join(said)), SILENCE)

        self.play(main)
