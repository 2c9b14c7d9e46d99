"""Huawei Cloud ModelArts: training jobs of the v2 and v1 APIs, dedicated pools."""
