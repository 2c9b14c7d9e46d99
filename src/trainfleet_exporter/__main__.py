"""`python -m trainfleet_exporter`, and the command itself."""

import signal
import sys

from trainfleet_exporter.process import version

_SHORT_COMMANDS = {"once", "diagnose"}
"""Commands that end when their terminal closes, like any other command-line tool."""


def main() -> int:
    """Run the command line; the exit code. What is slow to import comes after the signal handlers."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C prints no traceback
    arguments = sys.argv[1:]
    if "--version" in arguments:
        print(version())  # noqa: T201 - what the flag asks for
        return 0
    if arguments[:1] == ["healthcheck"]:  # runs often, and needs none of the other imports
        from trainfleet_exporter.process.arguments import run  # noqa: PLC0415 - see above
        from trainfleet_exporter.process.healthcheck import command  # noqa: PLC0415

        return run(command, arguments[1:], "trainfleet-exporter healthcheck")
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL and _SHORT_COMMANDS.isdisjoint(arguments):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # else it would end the process during the imports
    from trainfleet_exporter import cli  # noqa: PLC0415 - see above
    from trainfleet_exporter.process.threads import exit_if_calls_hang  # noqa: PLC0415

    try:
        code = cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    exit_if_calls_hang(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
