"""`heurgen record`: a program runs as it would, and every sweep of @triton.autotune in it is written down.

`record` starts the program with a folder first on its PYTHONPATH; Python imports the `sitecustomize` in it at start,
which leaves `shim` to be installed into Triton's autotuner when the program imports it.
"""
