"""`python -m mindtorch_v2 script.py [args…]`: run a program with mindtorch_v2 in torch's place."""

import sys

from .launch.launcher import main

if __name__ == "__main__":
    main(sys.argv[1:])
