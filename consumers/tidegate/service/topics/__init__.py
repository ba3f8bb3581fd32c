"""The topics that a deployment declares, and what a broker has of them."""
