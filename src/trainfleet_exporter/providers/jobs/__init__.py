"""Jobs of any cloud: lists by number, filters, histories and held time. `fleet.jobs` has the live and ended jobs."""
