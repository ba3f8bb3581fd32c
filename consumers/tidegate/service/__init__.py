"""A service as a process: settings, assembly from the settings, and the run until a signal.

Import `settings`, `assembly` or `runner` directly. This package imports none of them, because
`assembly` imports every service, and commands that only need the settings should start fast.
"""
