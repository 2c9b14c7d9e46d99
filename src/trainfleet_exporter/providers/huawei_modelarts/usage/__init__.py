"""Usage of ModelArts: the table of metrics, and the sources that have them, each in a module of its name."""
