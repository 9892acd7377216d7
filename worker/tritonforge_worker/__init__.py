"""The evaluator's untrusted side: a zygote that forks one disposable child per job.

Nothing here judges. What a child says is data for the trusted C++ side (src/evaluate), which owns seeds, expected
outputs, comparison, clock and verdict.
"""
