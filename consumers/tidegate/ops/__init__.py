"""What people operate a deployment with: doctor, replay, dead letters, topics."""
