"""Which texts a message may quote: words, numbers, names; nothing that could be a key or a password in a wrong place.

People who write a config confuse lines: a secret ends up where a number or a name belongs. An error quotes what was
found, so it has to distinguish secrets from words. Keys mix letters and digits, or both cases, over a length that no
word has.
"""

from __future__ import annotations

import json
import re

from trainfleet_exporter.config.secrets import hide_userinfo

NOT_SHOWN = "a text that is not shown, for it may be a secret"
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
_WORD = re.compile(r"[a-z]{1,24}|[A-Z]{1,24}|(?:[A-Z]?[a-z]{2,16}){1,4}|[0-9]{1,19}")
_MIXED_AT_MOST = 10
"""Letters and digits of a text that are no words: enough for `v1`, `h20`, `10s` and the like."""
_WORD_OF_NAME = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VOWEL = re.compile("[aeiouyAEIOUY]")
_WORDS_AT_LEAST = 0.7
_OF_PASSWORDS = re.compile(r"[!#%&;~`]")
_PLAIN_QUANTITY = re.compile(
    r"[-+]?[0-9.,_]{0,12} ?(?:[a-z]{0,10}|[A-Z]{0,6})(?:[0-9]{1,6}[a-z]{1,3}){0,4}"
    r"|[0-9]{1,9}[eE][0-9]{1,2}|[0-9]{1,3}(?::[0-9]{1,2}){1,2}|[-+]?[0-9]{13,40}"
)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NOT_OF_A_KEY = re.compile(r"[^A-Za-z0-9_.<-]")
_SHOWN = 80  # characters of a found text


def is_plain(text: str) -> bool:
    """Return whether a text is made of words, numbers and punctuation alone."""
    mixed = sum(len(run) for run in _ALPHANUMERIC.findall(text) if not _WORD.fullmatch(run))
    return text.isascii() and mixed <= _MIXED_AT_MOST and not _OF_PASSWORDS.search(text)


def is_like_name(text: str) -> bool:
    """Return whether a text looks as names of keys do, such as `accessKeyId` and `ossBucketV2`.

    Most of it is words of three letters or more, with a vowel, and there is one number at most. Of random keys of 30
    letters and digits, one in 800 looks like that.
    """
    pieces = _WORD_OF_NAME.findall(text)
    words = sum(len(piece) for piece in pieces if len(piece) >= 3 and _VOWEL.search(piece))
    numbers = [piece for piece in pieces if piece.isdigit()]
    return text.isascii() and words >= _WORDS_AT_LEAST * sum(map(len, pieces)) and len(numbers) <= 1


def show(value: object, *, quantity: bool = False, shape_only: bool = False) -> str:
    """A found value in a fault: one line, shortened, without a user and password. Never call it with a secret.

    A `quantity` is a number, a duration or a flag, of which more is known. `shape_only` shows no text.
    """
    if value is None:
        return "no value"
    if isinstance(value, dict | list | tuple) or shape_only:
        many = "an empty list" if value == [] else "a list"
        return "a mapping" if isinstance(value, dict) else many if isinstance(value, list | tuple) else "a single value"
    text = hide_userinfo(str(value))
    if not (_PLAIN_QUANTITY.fullmatch(text) if quantity else is_plain(text)):
        return NOT_SHOWN
    shown = text if _NUMBER.fullmatch(text) and len(text) <= _SHOWN else json.dumps(text[:_SHOWN])
    return shown + ("…" if len(text) > _SHOWN else "")


def word_of(key: str) -> str:
    """The part of a key that is one: in `{access_key_secret:xyz}`, which lacks a space, YAML takes all of it."""
    return _NOT_OF_A_KEY.split(key, maxsplit=1)[0]


def show_key(key: str) -> str:
    """A key as it is written. What cannot be a key is cut off, since it may be a secret or break the line."""
    word = word_of(key)
    if not is_plain(word) and (word != key or not is_like_name(word)):
        return "…"
    return word if word == key else f"{word}…"
