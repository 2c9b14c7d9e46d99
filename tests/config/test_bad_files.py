"""Bad configs: each gets exactly the messages next to it, each with its line and without a secret.

`bad.txt` holds them: a config under its name, and its messages in lines that begin with "> ". After a change of
wording: `UPDATE_GOLDEN=1 pytest tests/config/test_bad_files.py`, and read the difference.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

from tests.support.configs import loaded
from tests.support.golden import check_golden
from trainfleet_exporter.errors import ConfigError

TABLE, FILES = Path(__file__).parent / "bad.txt", Path(__file__).parent / "files"
ENVIRON = {
    "WRONG_DURATION": "soon",
    "EMPTY": "",
    "OTHER_REGION": "cn-north-4",
    "ZONE": "cn-north-4a",
    "MISSPELT_REGION": "cn-hangzou",
    "YOURS": "YOUR_ACCOUNT",
    "NO_BREAK_SPACE": "hunter2\u00a0",
    "SECRET_OF_TWO_LINES": "hunter2\nhunter2",
    "HOME": str(FILES / "home"),
    "HUAWEICLOUD_SDK_AK": "hunter2",
    "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
}
SECRET = "hunter2"  # wherever a config of the table has a secret, it is this


def _error(folder: Path, text: bytes) -> ConfigError:
    """Load a config from a folder with `files`."""
    (folder / "files").symlink_to(FILES)
    (folder / "config.yaml").write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        loaded(folder / "config.yaml", ENVIRON)
    return caught.value


def test_every_answer_is_exactly_this(tmp_path: Path) -> None:
    blocks = re.split("^=== ", TABLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    answers = [blocks[0]]
    for block in blocks[1:]:
        name, *lines = re.sub("(?m)^> .*\n", "", block).splitlines(keepends=True)
        (folder := tmp_path / name.strip()).mkdir()
        error = _error(folder, "".join(lines).encode())
        said = [str(fault).replace(f"{folder}/config.yaml", "config.yaml") for fault in error.faults]
        answers.append("".join([name, *lines, *(f"> {line}\n" for line in said)]))
        assert not any(SECRET in line or "\n" in line for line in said)
        assert SECRET not in "".join(traceback.format_exception(error))
        assert all(line.startswith(("config.yaml:", "config.yaml: found ")) for line in said)
        places = [(fault.line or 0, fault.path) for fault in error.faults]
        assert places == sorted(places)
    check_golden(TABLE, "=== ".join(answers))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (b"", "found no mapping; allowed: keys with values"),
        (b"# \xc3\xa9\nx: \xff\n", "found a byte or character that no text has; allowed: printable UTF-8"),
        (b'a: 1\nx: "\x07"\n', "found a byte or character that no text has; allowed: printable UTF-8"),
        pytest.param(
            b"a: 1\nx: " + b"[" * 3000,
            "found too deep or endless nesting; allowed: some hundred levels",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_file_that_is_no_yaml(tmp_path: Path, text: bytes, answer: str) -> None:
    (fault,) = _error(tmp_path, text).faults
    assert fault.message == answer
    assert fault.line == (2 if b"x: " in text and b"[" not in text else None)
