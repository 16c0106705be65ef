"""``python -m tests.bugs``: how many reports of each family are in the corpus; ``--list`` shows every entry."""

import sys

from tests.bugs.corpus import listing, table

sys.stdout.writelines(f"{line}\n" for line in (listing() if "--list" in sys.argv[1:] else table()))
