"""`python -m deploy.generator [--check]`: write the files that are out of date, or only list them and exit 1."""

from __future__ import annotations

import argparse

from deploy.generator import Source, dashboards, docs, kubernetes, out_of_step, rules, write

SOURCES: tuple[Source, ...] = (rules.files, dashboards.files, docs.files, kubernetes.files)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.generator", description="Write the generated files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    check = parser.parse_args(arguments).check
    try:
        stale = out_of_step(SOURCES)
    except ValueError as error:  # a threshold that cannot be
        raise SystemExit(str(error)) from None
    for path in sorted(stale):
        print(f"{'out of date' if check else 'written'}: deploy/{path.as_posix()}")
    write({} if check else stale)
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
