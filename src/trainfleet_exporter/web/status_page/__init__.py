"""The status page at `/`: what somebody on call wants to know within five seconds.

    snapshot ──fleet──► figures of the fleet ──┐
                                               ├──page──► markup ──► kept for a second, whoever asks
    telemetry ──own──► how polling goes ───────┘

It asks no cloud and waits for no poll. The figures of the fleet are read from the sample lines of the snapshot, about
2 ms at a time, and kept as long as the snapshot is the same; how many rows the page has is bounded everywhere.
"""

from trainfleet_exporter.web.status_page.endpoint import Sources, StatusPage
from trainfleet_exporter.web.status_page.own import LastError

__all__ = ["LastError", "Sources", "StatusPage"]
