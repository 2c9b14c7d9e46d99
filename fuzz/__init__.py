"""Coverage-guided fuzzing of all code that reads untrusted input: `make fuzz`.

`targets` has the fuzzed functions and their checks. It needs only the exporter, and the tests run it with the corpus.
`run` runs one target with atheris (libFuzzer), which `make fuzz` installs. `__main__` runs all targets and prints a
table.
"""
