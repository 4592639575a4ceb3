"""`python -m nodemanager` is the `nodemanager` command."""

from nodemanager.cli.main import main

if __name__ == "__main__":
    main()
