"""What people who watch the services see: metrics, health and logs."""
