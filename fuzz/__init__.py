"""Coverage-guided fuzzing of everything that reads what strangers write: `make fuzz`.

`targets` has what is fed, and what must hold whatever comes; it needs nothing but the exporter, and the tests feed it
the kept corpus. `run` feeds one target by atheris (libFuzzer), which `make fuzz` installs; `__main__` runs them all and
tells how far they came.
"""
