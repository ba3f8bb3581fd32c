"""Tools to operate a deployment: doctor, replay, dead letters, topics."""
