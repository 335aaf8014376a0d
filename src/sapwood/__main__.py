"""`python -m sapwood` is the command `sapwood`."""

from sapwood.cli.main import run

if __name__ == "__main__":
    run()
