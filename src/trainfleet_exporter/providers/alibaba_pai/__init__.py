"""Alibaba Cloud PAI: DLC jobs and pods, resource quotas, workspaces."""
