"""A candidate's forward as a plan: the aten calls and Triton launches that it makes, recorded without running any.

The trusted side checks the plan and replays it on inputs that this process never sees. Nothing here is trusted: a
forged plan is a plan like any other, and does what it says or fails.
"""
