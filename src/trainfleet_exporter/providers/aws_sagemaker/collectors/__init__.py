"""SageMaker's collectors, one module each."""
