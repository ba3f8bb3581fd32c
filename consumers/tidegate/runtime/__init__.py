"""The one loop that every service runs in."""
