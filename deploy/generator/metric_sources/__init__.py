"""Where each metric family comes from on each platform, for docs/metrics.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploy.generator.metric_sources import alibaba_pai, aws_sagemaker, huawei_modelarts

SOURCES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "alibaba_pai": alibaba_pai.SOURCES,
    "aws_sagemaker": aws_sagemaker.SOURCES,
    "huawei_modelarts": huawei_modelarts.SOURCES,
}
"""By platform and family: one text for each API, with the fields of the values."""
EXPERIMENTAL: Mapping[str, Mapping[str, str]] = {
    "alibaba_pai": alibaba_pai.EXPERIMENTAL,
    "aws_sagemaker": aws_sagemaker.EXPERIMENTAL,
    "huawei_modelarts": huawei_modelarts.EXPERIMENTAL,
}
"""By platform and family: what is unproven about the values."""
