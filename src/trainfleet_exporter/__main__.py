"""`python -m trainfleet_exporter`, and the command itself."""

import sys

from trainfleet_exporter.process import signals

_SHORT_COMMANDS = ("once", "diagnose")
"""Commands that end when their terminal closes, like any other command-line tool."""


def main() -> int:
    """Run the command line; the exit code. The slow imports come after the signal handlers."""
    signals.interrupt_quietly()
    from trainfleet_exporter.process import arguments  # noqa: PLC0415 - see above

    given = arguments.split(sys.argv[1:])
    if "--version" in given.flags:
        print(arguments.version())  # noqa: T201 - what the flag asks for
        return 0
    if given.command == "healthcheck":  # runs often, and needs none of the other imports
        from trainfleet_exporter.process import healthcheck  # noqa: PLC0415 - see above

        return healthcheck.main([*given.more, *given.flags])
    restore_hangups = signals.ignore_hangups()
    from trainfleet_exporter import cli  # noqa: PLC0415 - see above
    from trainfleet_exporter.process.threads import exit_if_calls_hang  # noqa: PLC0415

    if given.command in _SHORT_COMMANDS:
        restore_hangups()
    try:
        code = cli.main()
    except SystemExit as end:  # of a parser of flags, or of a reload that failed half-way
        exit_if_calls_hang(end.code if isinstance(end.code, int) else 1)
        raise
    exit_if_calls_hang(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
