"""How the code is divided: its layers and its names."""
