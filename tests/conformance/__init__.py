"""The conformance kit: the built-in clouds pass it, and each mistake made on purpose in the example fails it."""
