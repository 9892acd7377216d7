"""What the includes of src/ say: that they stay within each folder's DEPS, and which sources need libtorch.

usage: includes.py check   one line for each include that its folder's CMakeLists.txt does not allow; exit 1
       includes.py torch   the sources of src/ and tests/unit/ that reach a header of libtorch, one a line

A folder may include its own headers and those of the folders named in `DEPS tf_...` of its tf_library; DEPS may name
only folders above it in cmake/Folders.cmake, and only those that it includes.
"""

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#include\s+(["<])([^">]+)[">]', re.MULTILINE)
TORCH = ("torch/", "ATen/", "c10/")


def includes_of(path: Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def folders(src: Path) -> list[str]:
    text = (src.parent / "cmake" / "Folders.cmake").read_text()
    return re.search(r"set\(TF_FOLDERS ([^)]*)\)", text).group(1).split()


def declared_deps(src: Path, folder: str) -> set[str]:
    """Every tf_... that the folder's CMakeLists.txt names, less the libraries that the folder itself defines."""
    text = (src / folder / "CMakeLists.txt").read_text()
    text = re.sub(r"#.*", "", text)
    deps = set(re.findall(r"\btf_([a-z0-9]+)(?:_config|_dims)?\b", text))
    return deps - {folder, "library", "embed", "torch"}


def check(src: Path) -> int:
    known, wrong = folders(src), []
    for position, folder in enumerate(known):
        if not (src / folder / "CMakeLists.txt").exists():
            continue
        allowed, used = declared_deps(src, folder), set()
        # cli links every folder: main's commands reach all of them.
        if folder == "cli":
            allowed = set(known) - {"cli"}
        for path in sorted((src / folder).rglob("*")):
            if path.suffix not in {".cpp", ".h", ".inl", ".cu", ".cuh"}:
                continue
            for kind, name in includes_of(path):
                other = name.split("/")[0]
                if kind != '"' or other == folder or other not in known:
                    continue
                used.add(other)
                if other not in allowed:
                    wrong.append(f"{path.relative_to(src.parent)}: includes {name}, but tf_{other} is not in DEPS")
        for other in sorted(allowed):
            if other in known and known.index(other) > position:
                wrong.append(f"src/{folder}/CMakeLists.txt: tf_{other} is below {folder} in cmake/Folders.cmake")
            elif folder != "cli" and other not in used:
                wrong.append(f"src/{folder}/CMakeLists.txt: tf_{other} is in DEPS, but nothing of it is included")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


def reaches_torch(path: Path, roots: list[Path], seen: dict[Path, bool]) -> bool:
    if path in seen:
        return seen[path]
    seen[path] = False  # an include circle adds nothing
    for kind, name in includes_of(path):
        if name.startswith(TORCH):
            seen[path] = True
            break
        if kind == '"':
            found = next((c for r in [*roots, path.parent] if (c := r / name).is_file()), None)
            if found is not None and reaches_torch(found.resolve(), roots, seen):
                seen[path] = True
                break
    return seen[path]


def torch_sources(src: Path, files: list[Path]) -> list[Path]:
    seen: dict[Path, bool] = {}
    roots = [src, src.parent / "tests"]
    return [file for file in files if reaches_torch(file.resolve(), roots, seen)]


def main(arguments: list[str]) -> int:
    src = Path(__file__).resolve().parent.parent / "src"
    if arguments == ["check"]:
        return check(src)
    if arguments == ["torch"]:
        files = [p for top in (src, src.parent / "tests" / "unit") for p in sorted(top.rglob("*.cpp"))]
        print("\n".join(str(p) for p in torch_sources(src, files)))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
