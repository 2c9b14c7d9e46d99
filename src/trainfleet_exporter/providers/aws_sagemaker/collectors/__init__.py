"""SageMaker's collectors, one module each, over what they share of one provider."""
