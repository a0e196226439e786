"""``python -m unpermute``."""

from unpermute.cli import main

if __name__ == "__main__":
    main()
