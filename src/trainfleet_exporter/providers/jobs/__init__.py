"""Jobs of any cloud: lists that are whole, the registry of live and finished jobs, filters, statuses."""
