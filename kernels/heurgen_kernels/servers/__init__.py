"""The kernels inside inference servers: vllm/, a plugin of vLLM; transformers.py, attention for Transformers."""
