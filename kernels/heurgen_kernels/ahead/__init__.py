"""Compiling ahead of the first launch: which configs a selector can answer, what they compile to, and doing it.

answers.py follows a selector along every path; layouts.py says what a model's calls look like; compiling.py turns
launches into compilation and shares the work among processes; worker.py is such a process; warm.py is `warm_up`,
linear.py `warm_up_matmul`.
"""
