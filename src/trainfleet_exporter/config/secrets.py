"""Secrets whose repr and str never contain the value, and which texts a message may quote.

People confuse lines: a secret ends up where a number or a name belongs. Keys mix letters and digits, or both cases,
over a length that no word has.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.files import Stamp, read_regular_file
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.process.redaction import MASK, remember

# From the scheme (if there is one) to the LAST @, since a password may hold an @ or a slash that was not encoded.
_USER_INFO = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*://|//)?.*@", re.DOTALL)
_NO_TEXT = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control characters, lone surrogates, line and paragraph separators
_INVISIBLE = frozenset({"Cf", "Zs"})  # format characters such as U+200B and a byte order mark; spaces of all kinds
_BLANK = "\u034f\u115f\u1160\u2800\u3164\ufe0e\ufe0f\uffa0"  # invisible characters of other categories
_MAX_SECRET_BYTES = 65536  # a credential is short; what is longer is the wrong file
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
_WORD = re.compile(r"[a-z]{1,24}|[A-Z]{1,24}|(?:[A-Z]?[a-z]{2,16}){1,4}|[0-9]{1,40}[a-z]?")
_WORD_OF_NAME = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OF_PASSWORDS = re.compile(r"[!#%&;~`]")
_NOT_OF_A_KEY = re.compile(r"[^A-Za-z0-9_.<-]")
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")

log = logging.getLogger(__name__)


def unusable(text: str) -> str:
    """Why `text` cannot be a secret (nor a name or an id), in words that do not hold it; empty if it can."""
    if not text.strip():
        return "it is empty"
    if any(unicodedata.category(character) in _NO_TEXT for character in text):
        return "it contains a line break or another control character"
    return ""


def unusable_secret(text: str) -> str:
    """Why `text` cannot be a secret, as `unusable`. Invisible characters at an end would break every signature."""
    if reason := unusable(text):
        return reason
    for place, character in (("begins", text[0]), ("ends", text[-1])):
        if unicodedata.category(character) in _INVISIBLE or character in _BLANK:
            name = unicodedata.name(character, "an unnamed character").lower()
            return f"it {place} with the invisible character U+{ord(character):04X} ({name}); remove it"
    return ""


def hide_userinfo(text: str) -> str:
    """The text with all that may be a user and password replaced; anything without an @ stays as it is."""
    return _USER_INFO.sub(lambda match: f"{match[1] or ''}{MASK}@", text)


class Secret:
    """A text that shows as `<secret>` when it is printed, formatted, pickled or dumped.

    Only `reveal()` gives the text. A secret of a file follows that file: it is read again when the file's time,
    size or inode changes, so that rotated credentials need no reload.
    """

    __slots__ = ("_reported", "_stamp", "_text", "path", "source")

    path: Path | None
    """The file that it follows; None if it was given as a text."""
    source: str
    """Its source for users: `config file`, `environment` or `file PATH`."""

    def __init__(self, text: str, *, source: str = "config file") -> None:
        self._text = text
        self.path = None
        self._stamp: Stamp | None = None
        self._reported = ""
        self.source = source
        remember(text, configured=True)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Take the secret from a file now, without its trailing newline; `AccessDenied` if that cannot be."""
        secret = cls("", source=f"file {path}")
        secret.path = path
        secret.reveal()
        return secret

    def reveal(self) -> str:
        """The text itself. `AccessDenied` if its file was never usable; a file that becomes unusable is logged."""
        if self.path is not None:
            self._follow(self.path)
        remember(self._text, configured=True)
        return self._text

    def now(self) -> Secret:
        """The secret as it is at present, which no longer follows a file: to be compared with a later one."""
        return Secret(self.reveal(), source=self.source)

    def _follow(self, path: Path) -> None:
        try:
            stamp, raw = read_regular_file(path, _MAX_SECRET_BYTES, unless=self._stamp)
            if stamp == self._stamp:
                return
            text = raw.decode("utf-8-sig").rstrip("\r\n")
            reason = unusable_secret(text)
        except UnicodeDecodeError:
            reason = "it is not UTF-8"
        except OSError as error:
            reason = error.strerror or "it cannot be read"
        if not reason:
            self._text, self._stamp, self._reported = text, stamp, ""
        elif not self._text:
            raise AccessDenied(f"the secret file {path} cannot be used: {reason}") from None
        elif reason != self._reported:
            self._reported = reason
            facts = fields(file=path, reason=reason)
            log.warning("secret file is unusable; the last good content stays in use", extra=facts)

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (MASK,)

    def __getstate__(self) -> None:
        """Nothing: what object's own would give holds the text."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        """Equal texts, or the same file: what a reload asks to see whether a provider has changed."""
        if not isinstance(other, Secret):
            return NotImplemented
        if self.path is not None or other.path is not None:
            return self.path == other.path
        return self._text == other._text

    def __hash__(self) -> int:
        return hash((type(self), self.path or self._text))


class ProxyUrl(Secret):
    """The address of a proxy, which may hold a user and a password: it shows without them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return hide_userinfo(self.reveal())


class EnvironmentText(str):
    """A text with a value of the environment, which messages do not show."""


def is_plain(text: str) -> bool:
    """Return whether a text is made of words, numbers, punctuation, and a few like `v1` and `h20`."""
    mixed = sum(len(run) for run in _ALPHANUMERIC.findall(text) if not _WORD.fullmatch(run))
    return text.isascii() and mixed <= 10 and not _OF_PASSWORDS.search(text)


def is_like_name(text: str) -> bool:
    """Return whether a text looks as names of keys do, such as `accessKeyId` and `ossBucketV2`.

    Most of it is words with a vowel, and one number at most. Of random keys of 30 characters, one in 800 is like that.
    """
    pieces = _WORD_OF_NAME.findall(text)
    words = sum(len(piece) for piece in pieces if len(piece) >= 3 and re.search("[aeiouyAEIOUY]", piece))
    numbers = [piece for piece in pieces if piece.isdigit()]
    return text.isascii() and words >= 0.7 * sum(map(len, pieces)) and len(numbers) <= 1


def show(value: object) -> str:
    """A found value in a fault: one line, without a user and password. Never call it with a secret."""
    if isinstance(value, EnvironmentText):
        return "a value of the environment"
    if value is None or isinstance(value, dict | list | tuple):
        return "no value" if value is None else "a mapping" if isinstance(value, dict) else "a list"
    text = hide_userinfo(str(value))
    return json.dumps(text) if is_plain(text) else "a text that is not shown, for it may be a secret"


def show_key(key: str) -> str:
    """A key as it is written. What cannot be a key is cut off, since it may be a secret or break the line."""
    word = _word_of(key)
    if not is_plain(word) and (word != key or not is_like_name(word)):
        return "…"
    return word if word == key else f"{word}…"


def in_snake_case(key: str) -> str:
    """`access_key_id` of `accessKeyId`."""
    return _HUMP.sub("_", _word_of(key)).lower().replace("-", "_")


def near(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """The word that was probably meant; empty if none is near."""
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=cutoff)), "")


def mean(hint: str) -> str:
    """A question about what was meant; empty without a hint."""
    return f'did you mean "{hint}"? ' if hint else ""


def _word_of(key: str) -> str:
    # In `{access_key_secret:xyz}`, which lacks a space, YAML takes all of it for the key.
    return _NOT_OF_A_KEY.split(key, maxsplit=1)[0]
