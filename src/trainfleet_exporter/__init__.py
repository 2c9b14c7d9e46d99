"""Prometheus exporter for training jobs, pods and accelerator pools on rented clouds."""

__version__ = "0.1.0"
__revision__ = ""  # the source revision; building an image stamps it
