"""A read-only file system for one command, in its own mount namespace."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.programs import need

_SCRIPT = """
cut -d' ' -f2,4 /proc/self/mounts | while read -r where flags; do
  case $where in /proc*|/sys*|/dev|/dev/pts) continue ;; esac
  keep=$(echo "$flags" | tr , '\\n' | grep -E '^(nosuid|nodev|noexec|noatime|relatime|nodiratime)$' | tr '\\n' ,)
  mount -o "remount,bind,${keep}ro" "$where" 2>/dev/null
done
exec "$@"
"""
_WRITE = 'for folder in / /tmp /dev/shm . "$@"; do (: >"$folder/.probe") 2>/dev/null && exit 1; done; exit 0'


def on_read_only(command: list[str], *folders: Path) -> list[str]:
    """Return a command that runs `command` on a read-only file system, including /tmp and `folders`.

    If this is not possible, skip the test. In CI, fail the test.
    """
    begin = [need("unshare"), "--mount", "--map-root-user", "sh", "-c", _SCRIPT, "sh"]
    probe = [*begin, "sh", "-c", _WRITE, "sh", tempfile.gettempdir(), *map(str, folders)]
    tried = subprocess.run(probe, capture_output=True, timeout=30)
    if tried.returncode:
        why = "no namespace with a read-only file system can be had here: " + tried.stderr.decode().strip()
        if os.environ.get("CI"):
            pytest.fail(f"{why}, and CI must not skip")
        pytest.skip(why)
    return [*begin, *command]
