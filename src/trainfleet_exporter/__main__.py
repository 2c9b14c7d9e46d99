"""`python -m trainfleet_exporter`, and the command itself."""

import signal
import sys

_SHORT = ("once", "diagnose")
"""Commands that a terminal which is closed ends, as it ends others."""


def main() -> int:
    """Run the command line; the exit code. Nothing that takes time is imported before SIGHUP can do no harm."""
    if sys.argv[1:2] == ["healthcheck"]:  # which is run often, and needs nothing of what the others do
        from trainfleet_exporter import healthcheck  # noqa: PLC0415 - see above

        return healthcheck.main(sys.argv[2:])
    hangup = signal.getsignal(signal.SIGHUP)
    if hangup is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from trainfleet_exporter import aside, cli  # noqa: PLC0415 - see above

    if sys.argv[1:2] and sys.argv[1] in _SHORT:
        signal.signal(signal.SIGHUP, hangup)
    try:
        code = cli.main()
    except SystemExit as end:  # of a parser of flags, or of a reload that failed half-way
        aside.leave(end.code if isinstance(end.code, int) else 1)
        raise
    aside.leave(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
