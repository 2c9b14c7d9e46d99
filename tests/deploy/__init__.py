"""What operators take is checked here with the programs that will read it."""
