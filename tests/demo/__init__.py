"""`make demo`: both use cases on real parts, in one terminal.

`hudi_scenario` and `hive_scenario` are what happens, in order, with a check after each step.
"""
