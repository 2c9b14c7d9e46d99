"""What readings of usage count: units, and values that can be true."""
