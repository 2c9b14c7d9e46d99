"""The lines of /metrics for model objects."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.exposition import Renderer, RenderSettings


def lines(objects: Sequence[object], *, provider: str = "p", job_labels: tuple[str, ...] = ()) -> str:
    """Return the sample lines of the objects by family, without HELP and TYPE."""
    rendered = Renderer(RenderSettings(deny=(), job_labels=job_labels)).render(provider, objects).lines
    return b"".join(text for texts in rendered.values() for text in texts).decode()
