"""The tuner: measures every config of a kernel on every scenario of a workload and writes a tuning log."""
