"""The documents: their commands are run, what they name exists, and what is generated is up to date."""
