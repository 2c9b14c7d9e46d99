"""What a report was measured on and with: the machine, without its name, and the versions of all that took part."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    "trainfleet-exporter",
    "uvicorn",
    "httptools",
    "starlette",
    "msgspec",
    "aiohttp",
    "httpx",
    "prometheus-client",
    "alibabacloud-pai-dlc20201203",
)
_PROGRAMS = {
    "nginx": "-v",
    "prometheus-pushgateway": "--version",
    "prometheus": "--version",
    "go": "version",
    "curl": "--version",
}
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_TIMEOUT = 30.0


def machine() -> str:
    """Processor, cores, memory and kernel, in one line."""
    model = _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo") or platform.machine()
    memory = int(_first(r"MemTotal:\s*(\d+) kB", "/proc/meminfo") or "0") / (1 << 20)
    kernel = _VERSION.search(platform.release())
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, "
        f"{platform.system()} {kernel[0] if kernel else platform.release()}"
    )


def versions() -> str:
    """Python, packages, and the programs that were measured beside ours, in one line."""
    found = [f"Python {platform.python_version()}", f"zlib {zlib.ZLIB_RUNTIME_VERSION}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} (missing)")
    found += [f"{program} {_program_version(program, option)}" for program, option in _PROGRAMS.items()]
    return ", ".join(found)


def _program_version(program: str, option: str) -> str:
    if shutil.which(program) is None:
        return "(missing)"
    done = subprocess.run(  # noqa: S603 - programs of the table above
        [program, option], capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    told = _VERSION.search(done.stdout + done.stderr)
    return told[0] if told else "(does not tell its version)"


def _first(pattern: str, path: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1].strip() if found else None
