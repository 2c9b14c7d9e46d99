"""AWS SageMaker: training jobs, HyperPod clusters and training plans of one account and region."""
