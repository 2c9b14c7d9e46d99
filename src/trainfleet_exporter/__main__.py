"""`python -m trainfleet_exporter`."""

import sys

from trainfleet_exporter.cli import main

sys.exit(main())
