"""The former name of `trainfleet_conformance`, kept for packages that import it, its modules included."""

import importlib
import pkgutil
import sys

import trainfleet_conformance
from trainfleet_conformance import PUBLIC, PretendCloud, ProviderConformance

__all__ = ["PUBLIC", "PretendCloud", "ProviderConformance"]

for _found in pkgutil.iter_modules(trainfleet_conformance.__path__):
    _module = importlib.import_module(f"{trainfleet_conformance.__name__}.{_found.name}")
    sys.modules[f"{__name__}.{_found.name}"] = _module
    globals()[_found.name] = _module
