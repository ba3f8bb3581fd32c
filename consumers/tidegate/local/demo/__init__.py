"""`tidegate demo`: both use cases on real parts, in one terminal.

`run` starts everything and runs the two scenarios; `hudi_scenario` and `hive_scenario` are what
happens, in order, with a check after each step.
"""
