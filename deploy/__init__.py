"""What operators take: rules, dashboards, images, charts, units; `python -m deploy.generator` writes what is made."""
