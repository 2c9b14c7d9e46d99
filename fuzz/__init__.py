"""Coverage-guided fuzzing of everything that reads untrusted input: `make fuzz`.

`targets` has the fuzzed functions and their checks. It needs only the exporter, and the tests feed it the corpus. `run`
feeds one target by atheris (libFuzzer), which `make fuzz` installs. `__main__` runs all targets and prints a table.
"""
