"""What the simulated clouds share: people, jobs, pools with queues, and the passing of time."""
