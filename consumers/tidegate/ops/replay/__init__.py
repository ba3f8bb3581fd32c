"""Replay: reset a group to read again, or publish selected events again; planned first."""
