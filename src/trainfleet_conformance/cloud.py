"""What a provider's tests bring along: a pretend cloud, of which they know the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from starlette.types import ASGIApp


class PretendCloud(Protocol):
    """A cloud as far as its documentation tells. It is served over loopback, and asked by the provider as the real one.

    Nothing moves in it by itself, so that two pages can be compared. Its lists have more than one page where the cloud
    has pages, and it refuses who does not prove who asks.
    """

    @property
    def app(self) -> ASGIApp:
        """The ASGI application that answers."""
        ...

    def live_jobs(self) -> Mapping[str, str]:
        """The ids of the jobs that have not ended, each with its state in the cloud's own word."""
        ...

    def forget(self, job_id: str) -> None:
        """Delete a live job: no list has it any more, and asking for it by its id finds nothing."""
        ...

    def end(self, job_id: str, word: str) -> None:
        """A live job ends now (`time.time()`) in this state, one of those in which nothing is held any more: it is told
        as ended jobs are, and no other job changes for it."""
        ...
