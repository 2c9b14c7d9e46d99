"""`python -m trainfleet_exporter`, and the command itself."""

import signal
import sys

_SHORT = ("once", "diagnose")
"""Commands that end when their terminal closes, like any other command-line tool."""


def main() -> int:
    """Run the command line; the exit code. The slow imports come after the signal handlers."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until a command has handlers of its own, Ctrl-C ends the process at once and without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from trainfleet_exporter import arguments  # noqa: PLC0415 - see above

    given = arguments.split(sys.argv[1:])
    if "--version" in given.flags:
        print(arguments.version())  # noqa: T201 - what the flag asks for
        return 0
    if given.command == "healthcheck":  # runs often, and needs none of the other imports
        from trainfleet_exporter import healthcheck  # noqa: PLC0415 - see above

        return healthcheck.main([*given.more, *given.flags])
    hangup = signal.getsignal(signal.SIGHUP)
    if hangup is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from trainfleet_exporter import aside, cli  # noqa: PLC0415 - see above

    if given.command in _SHORT:
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
