"""The Python API: a proxy that a script or a test starts, and what its sessions received.

`LLMProxy` is a context manager; the pytest plugin is built on it.
"""

from llm_proxy.python_api.calls import Call
from llm_proxy.python_api.proxy import LLMProxy, ProxySession

__all__ = ["Call", "LLMProxy", "ProxySession"]
