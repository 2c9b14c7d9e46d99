"""Platform tags as Prometheus labels: legal names, and numbers for conflicts as in kube-state-metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]")


def tag_labels(tags: Mapping[str, str], wanted: Container[str]) -> list[tuple[str, str]]:
    """Return label names and values of the wanted tags, sorted by tag name.

    Tags whose names differ only in characters that a label name cannot hold (`team-a`, `team.a`) would share a label:
    all of them, also the first, get `_conflict1`, `_conflict2` and so on in the order of their names. A number that
    would meet a tag that is really called so is passed over.
    """
    chosen = [(f"label_{_ILLEGAL.sub('_', tag)}", tags[tag]) for tag in sorted(tags) if tag in wanted]
    if len({name for name, _ in chosen}) == len(chosen):
        return chosen
    uses = Counter(name for name, _ in chosen)
    taken = {name for name, times in uses.items() if times == 1}
    numbers: Counter[str] = Counter()
    labels = []
    for name, value in chosen:
        label = name
        if uses[name] > 1:
            while label == name or label in taken:
                numbers[name] += 1
                label = f"{name}_conflict{numbers[name]}"
            taken.add(label)
        labels.append((label, value))
    return labels
