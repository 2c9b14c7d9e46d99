"""What operators take: rules, dashboards, images, charts and units; `python -m deploy.generator` writes what is generated."""
