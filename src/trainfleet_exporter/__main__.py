"""`python -m trainfleet_exporter`, and the command itself."""

import sys

from trainfleet_exporter.process import signals


def main() -> int:
    """Run the command line; the exit code. The slow imports come after the signal handlers."""
    signals.interrupt_quietly()
    from trainfleet_exporter import cli  # noqa: PLC0415 - see above

    code = cli.main()
    if "trainfleet_exporter.process.threads" in sys.modules:  # else no command has used a thread
        sys.modules["trainfleet_exporter.process.threads"].exit_if_calls_hang(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
