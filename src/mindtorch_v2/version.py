"""This package's own version, which torch it answers for, and that it was built for the CPU alone."""

release = "0.1.0"
__version__ = "2.13.0+mindtorch"
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "mindtorch"
