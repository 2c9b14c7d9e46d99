"""The simulated Huawei ModelArts project: the v2 and v1 training APIs, dedicated pools, and IAM."""
