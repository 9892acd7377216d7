"""The command `tritonforge`: runs the program on the torch of the Python that it was installed into."""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

TORCH = "2.11.0"  # whose C++ interface the program was built against
HERE = Path(__file__).resolve().parent


def library_folders() -> list[str]:
    """Where torch, its CUDA libraries and Arrow are, without importing them; they may be in several site-packages."""
    found = []
    for package, folder in (("torch", "lib"), ("nvidia", "cu13/lib"), ("pyarrow", "")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            path = Path(place, folder)
            if path.is_dir():
                found.append(str(path))
    return found


def main() -> None:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        version = "missing"
    if version.split("+")[0] != TORCH:
        print(
            f"tritonforge: torch is {version}, {TORCH} is needed: {sys.executable} -m pip install torch=={TORCH}",
            file=sys.stderr,
        )
        sys.exit(3)
    environment = dict(os.environ)
    environment.setdefault("TRITONFORGE_ROOT", str(HERE))
    environment.setdefault("TRITONFORGE_PYTHON", sys.executable)
    given = os.environ.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = ":".join(library_folders() + ([given] if given else []))
    os.execve(HERE / "bin" / "tritonforge", ["tritonforge", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
