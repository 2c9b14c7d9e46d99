"""Usage of training jobs by CloudWatch."""
