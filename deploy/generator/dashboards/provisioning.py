"""Provisioning of Grafana: the Prometheus data source and the folder of dashboards."""

from __future__ import annotations

_MADE = "# Made by python -m deploy.generator; edit deploy/generator/dashboards/provisioning.py.\n"

DATASOURCE = (
    _MADE
    + """\
apiVersion: 1
datasources:
  - name: Prometheus
    uid: trainfleet-prometheus
    type: prometheus
    access: proxy
    url: ${PROMETHEUS_URL}  # of Grafana's environment, such as http://prometheus:9090
    isDefault: true
    editable: false
    jsonData:
      httpMethod: POST
      prometheusType: Prometheus
      timeInterval: 30s  # the scrape interval: rates look back over four of them
"""
)

DASHBOARDS = (
    _MADE
    + """\
apiVersion: 1
providers:
  - name: trainfleet
    folder: Trainfleet
    folderUid: trainfleet
    type: file
    disableDeletion: true
    allowUiUpdates: false
    updateIntervalSeconds: 60
    options:
      path: /etc/grafana/dashboards/trainfleet  # deploy/grafana/dashboards is mounted here
      foldersFromFilesStructure: false
"""
)
