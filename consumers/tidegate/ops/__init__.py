"""Tools to operate a deployment: status, explain, doctor, replay, dead letters, topics."""
