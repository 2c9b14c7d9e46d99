"""The messages that a bad config can get: what was found, and what is allowed.

One member is one rule of the config file; `tests/config/bad/` holds a file for each. Braces are filled with
`str.format`; doubled ones are literal. Values of secrets are never among the facts that are filled in.
"""

from __future__ import annotations

import re
from enum import StrEnum

_ALLOWED = "; allowed: "
PLACEHOLDER = re.compile("YOUR_[A-Z][A-Z0-9_]{0,40}")
"""A placeholder in an example for a value that only the user knows."""


class Wording(StrEnum):
    """The rules and their messages. A platform with config rules of its own derives a class."""

    def hinted(self, hint: str, **facts: object) -> str:
        """The message, with what was probably meant; without that if `hint` is empty."""
        found, _, allowed = self.partition(_ALLOWED)
        if not hint:
            return self.format(**facts)
        return f'{found.format(**facts)}; did you mean "{hint}"? allowed: {allowed.format(**facts)}'

    def missing(self, **facts: object) -> str:
        """The message where nothing was found."""
        return f"required, but missing{_ALLOWED}{self.partition(_ALLOWED)[2].format(**facts)}"


class Rule(Wording):
    """The rules of the config file that are every platform's."""

    # The file as such.
    UNREADABLE_FILE = "found a file that cannot be read ({reason}); allowed: a readable YAML file"
    NOT_UTF8 = "found a byte that is not UTF-8; allowed: a YAML file in UTF-8"
    CONTROL_CHARACTER = "found a control character; allowed: printable characters"
    TAB = "found a tab; allowed: spaces"
    SYNTAX = "invalid YAML: {problem}; allowed: {fix}"
    BARE_VARIABLE = "found a ${{ without quotes between {{ }} or [ ]; allowed: quotes around the text"
    SECOND_DOCUMENT = "found a second YAML document; allowed: one"
    UNDEFINED_ALIAS = (
        "found an alias (*) without its anchor (&); allowed: an anchor above it, "
        "or quotes around a text that begins with *"
    )
    TOO_DEEP = "found lists or mappings nested too deeply; allowed: the layout of config.example.yaml"
    EMPTY_FILE = "found an empty file; allowed: a mapping with {keys}"

    # The tree.
    REPEATED_KEY = "duplicate key (first on line {first}); allowed: each key once"
    KEY_NOT_TEXT = "found {found} as a key; allowed: a text"
    TAG = "found a value with a YAML tag (!); allowed: no tags, or quotes around a text that begins with !"
    SELF_REFERENCE = "found an alias that contains itself; allowed: an alias to something else"
    MERGE = "found {found} after <<; allowed: a mapping, or a list of mappings"
    UNKNOWN_KEY = 'unknown key "{found}"; allowed: {keys}'
    MISPLACED_KEY = 'unknown key "{found}" here; {advice}; allowed: {keys}'
    REMOVED = 'found "{found}", which this version does not have any more; allowed: {instead}'
    PLACEHOLDER = 'found the placeholder "{found}"; allowed: your own value in its place'
    SECTION = "found {found}; allowed: a mapping with {keys}"
    LIST = "found {found}; allowed: a list"

    # References.
    UNSET_VARIABLE = (
        "found ${{{names}}}, which the environment does not set; allowed: a variable that is set, or $$ for a dollar"
    )
    MALFORMED_VARIABLE = (
        "found ${{ without a variable name and }}; allowed: ${{NAME}} of letters, digits and _, or $$ for a dollar"
    )
    VARIABLE_WITHOUT_BRACES = (
        "found a $ and a name without braces; allowed: ${{NAME}}, or $$NAME for a text with a dollar"
    )
    TEXT_AND_FILE = "found both {key} and {key}_file; allowed: one of them"
    FILE_OF_TEXT = "found a file that cannot serve as a secret ({reason}); allowed: a readable file with one line"
    CA_FILE = "found {found}, which cannot be used ({reason}); allowed: a readable file of PEM certificates"
    WRITABLE_FILE = "found {found}, which cannot be used ({reason}); allowed: a file in a writable folder"

    # Single values.
    TEXT = "found {found}; allowed: a text without control characters, not empty"
    NAME = "found {found}; allowed: a text of 1 to 64 characters without control characters"
    REGION = "found {found}; allowed: a region ID of lower-case letters, digits and hyphens, such as cn-hangzhou"
    REGION_OF_ANOTHER = (
        "found {found}, which is a region of {cloud}; allowed: a region of this cloud, such as {example}"
    )
    ZONE = "found {found}, which is a zone; allowed: a region, such as {example}"
    MISSPELT_REGION = (
        "found {found}, which is not a known region; allowed: a region of this cloud, "
        "or endpoints for one that is not public"
    )
    FLAG = "found {found}; allowed: true or false"
    COUNT_FROM_0 = "found {found}; allowed: a whole number, 0 or more"
    COUNT_FROM_1 = "found {found}; allowed: a whole number, 1 or more"
    MONTHLY_CALLS = "found {found}; allowed: a mapping of an API's name to a whole number of calls, 1 or more"
    RATE = "found {found}; allowed: a number above 0"
    DURATION = "found {found}; allowed: a duration above 0 and up to 3650d, such as 30s, 5m, 1h30m or 30d"
    DURATION_OR_ZERO = "found {found}; allowed: a duration up to 3650d, such as 0s, 30s, 5m, 1h30m or 30d"
    ENDPOINT = "found {found}; allowed: http:// or https:// with a host and perhaps a port, without user, path or query"
    PROXY = (
        "found {found}; allowed: http:// or https:// with a host and perhaps a user and a port, without path or query"
    )
    REGEX = (
        "found {found}, which is not a regular expression ({reason}); "
        "allowed: one of Python's re, with flags around parts only, such as (?i:...)"
    )
    GLOB = "found {found}; allowed: a metric family name in which * ? [...] may stand for characters"
    HIDDEN = "found <secret>; allowed: a text of one line without control characters, not empty"
    HIDDEN_MISSING = "required, but missing; allowed: a secret here, or the path of its file as {key}_file"
    PROJECT_ID = "found {found}; allowed: a project ID (usually 32 hexadecimal digits), not a project's name"
    CREDENTIALS_CHAIN = (
        "found no credentials here, and those of the environment are not usable ({reason}); "
        "allowed: credentials here, all of the vendor's variables, or none of them"
    )
    CREDENTIALS_NOWHERE = (
        "required, but missing: the vendor's own chain has no credentials either ({reason}); "
        "allowed: credentials here, or in one of those places"
    )
    CHOICE = "found {found}; allowed: {choices}"
    WORKSPACES = "found {found}; allowed: all, or a list of at least one workspace id"
    REPEATED_ITEM = "found {found} again; allowed: each once"
    PROVIDERS = "found {found}; allowed: a list of at least one provider"

    # What the installed platforms serve.
    PLATFORM = "found {found}, which this version does not support; allowed: {platforms}"
    NEEDED_COLLECTOR = "found false, but it is needed by {others}; allowed: true, or enabled: false for {others} too"

    # Values that depend on each other.
    REPEATED_NAME = "found {found} again (first on line {first}); allowed: a name of its own for each provider"
    TIMEOUT_TOO_LONG = "found {found}; allowed: less than {other}, which is {limit}"
    INTERVAL_TOO_SHORT = "found {found}; allowed: more than global.poll_timeout, which is {limit}"
    PLAIN_HTTP = "found {found}; allowed: https://, http:// to loopback, or http.allow_plain_http: true"
    LIMITS_DIFFER = (
        "found limits that differ from {other} (line {line}) of the same account {account}; "
        "allowed: equal limits, or limits in one provider of the account only"
    )
    LIMITS_PARTLY = (
        "found no limits, while {count} other providers of the account {account} set them; "
        "allowed: equal limits in all of them, or limits in one of them only"
    )
