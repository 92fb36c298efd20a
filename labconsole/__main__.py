"""``python -m labconsole``: the same as the ``labconsole`` command."""

from labconsole.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
