"""How the code is divided: its floors and its names."""
