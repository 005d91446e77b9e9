"""`python -m llm_proxy`."""

from llm_proxy.cli import main

if __name__ == "__main__":
    main()
