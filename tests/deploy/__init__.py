"""Tests of the files under deploy/ with the programs that read them."""
