"""The simulated AWS account: SageMaker, its metrics in CloudWatch, STS, and the metadata of machines and containers."""
