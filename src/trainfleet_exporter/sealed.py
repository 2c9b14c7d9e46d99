"""What holds secrets without being one: it shows none of them, and cannot be written down."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex


class Sealed:
    """Base of dataclasses with secret fields. They have slots (so no `vars`), and `repr=False` on such fields.

    A pickle, or a copy made by way of one, would write down all of them: TypeError.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds secrets, which are not written down")
