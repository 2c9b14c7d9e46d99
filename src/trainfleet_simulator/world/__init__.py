"""The common model of the simulated clouds: users, jobs, pools with queues, and time."""
