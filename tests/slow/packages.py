"""Which Debian packages the build on this machine took something from, and what a list brings along.

What was taken: every header that a compilation read, every library that was linked or is loaded, every
tool that CMake found, and every command that a script of the repository calls. What a list brings:
the packages named, what they depend on, and what is on every Debian system.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

INFO = Path("/var/lib/dpkg/info")
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/opt/")
SCRIPTS = ("Makefile", "tools/setup", ".ci/run", ".ci/fuzz", ".ci/wheel")
SLOW_SCRIPTS = (
    "tests/exact/run_on_emulated_avx512",
    "tests/exact/run_on_neon",
    "tests/parity/run_with_transformers",
    "tests/slow/fresh_clone",
    "tests/slow/fuzz",
    "tests/slow/text_parity",
)
# tools/setup finds these by itself, in any version that is new enough.
FOUND_OTHERWISE = {"cargo", "rustc", "python3"}
COMMAND = re.compile(
    r"(?:^|[|;&(`]|\$\(|\b(?:if|then|else|do|exec|env|!)\s)\s*@?([a-z][a-z0-9_.+-]*)(?=\s|$|\))", re.MULTILINE
)


@dataclass(frozen=True)
class Package:
    """An installed package.

    Attributes:
        name: without the architecture.
        everywhere: whether it is on every Debian system.
        needs: for each dependency the names that satisfy it.
        provides: further names that it answers to.
    """

    name: str
    everywhere: bool
    needs: tuple[tuple[str, ...], ...]
    provides: tuple[str, ...]


def output_of(*command: str) -> str:
    """Standard output of a command that must succeed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def names_of(field: str) -> tuple[tuple[str, ...], ...]:
    """The alternatives of each entry of a dependency field."""
    entries = [entry.split("|") for entry in field.split(",") if entry.strip()]
    return tuple(tuple(re.split(r"[\s:(]", name.strip())[0] for name in entry) for entry in entries)


def installed_packages() -> dict[str, Package]:
    """All of this machine's, by name."""
    fields = ("Package", "db:Status-Abbrev", "Essential", "Priority", "Pre-Depends", "Depends", "Provides")
    text = output_of("dpkg-query", "-W", "-f", "\\t".join(f"${{{field}}}" for field in fields) + "\\n")
    packages = {}
    for line in text.splitlines():
        name, status, essential, priority, before, depends, provides = line.split("\t")
        if status.startswith("ii"):
            everywhere = essential == "yes" or priority == "required" or name == "apt"
            needs = names_of(before) + names_of(depends)
            packages[name] = Package(name, everywhere, needs, tuple(entry[0] for entry in names_of(provides)))
    return packages


def closure(names: list[str], packages: dict[str, Package]) -> set[str]:
    """Installed packages that come with `names` on a bare system; recommendations do not."""
    providers: dict[str, list[str]] = {name: [name] for name in packages}
    for package in packages.values():
        for name in package.provides:
            providers.setdefault(name, []).append(package.name)
    found: set[str] = set()
    todo = [*names, *(package.name for package in packages.values() if package.everywhere)]
    while todo:
        name = todo.pop()
        if name in found or name not in packages:
            continue
        found.add(name)
        for alternatives in packages[name].needs:
            first = next((entry for entry in alternatives if entry in providers), None)
            todo += providers[first][:1] if first else []
    return found


def owners() -> dict[str, str]:
    """The package of each file that a package installed; /bin and /lib are as under /usr."""
    owner = {}
    for listing in INFO.glob("*.list"):
        name = listing.name.removesuffix(".list").split(":")[0]
        for path in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            owner.setdefault(plain(path), name)
    return owner


def plain(path: str) -> str:
    """The path with /usr before /bin, /lib and /sbin."""
    return re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path)


def headers(build: Path) -> set[str]:
    """Headers outside the repository that compilations read."""
    text = output_of("ninja", "-C", str(build), "-t", "deps")
    return {line.strip() for line in text.splitlines() if line.startswith("    /")}


def libraries(build: Path) -> set[str]:
    """Libraries that are linked by name, and those that the programs load."""
    linked = set(re.findall(r"/usr/lib/\S+?\.(?:a|so)\b", (build / "build.ninja").read_text(encoding="utf-8")))
    loaded: set[str] = set()
    for program in sorted((build / "bin").iterdir()):
        loaded |= set(re.findall(r"=> (/\S+)", output_of("ldd", str(program))))
    return linked | loaded


def build_tools(build: Path) -> set[str]:
    """Programs that CMake found."""
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    return {path for path in re.findall(r"^\w+:FILEPATH=(/\S+)$", cache, re.MULTILINE) if Path(path).is_file()}


def script_commands(root: Path, scripts: tuple[str, ...]) -> set[str]:
    """Paths of the commands that scripts call, of those that are installed here."""
    words: set[str] = set()
    for script in scripts:
        text = re.sub(r"(^|\s)#.*", "", (root / script).read_text(encoding="utf-8"))
        words |= set(COMMAND.findall(text))
    found = set()
    for word in words - FOUND_OTHERWISE:
        for folder in ("/usr/bin", "/bin", "/usr/sbin"):
            if (Path(folder) / word).exists():
                found.add(f"{folder}/{word}")
                break
    return found


def setup_list(root: Path, *arrays: str) -> list[str]:
    """The packages that tools/setup names in its arrays."""
    text = (root / "tools" / "setup").read_text(encoding="utf-8")
    names: list[str] = []
    for array in arrays:
        match = re.search(rf"^{array}=\((.*?)\)", text, re.MULTILINE | re.DOTALL)
        if match is None:
            raise ValueError(f"tools/setup has no array {array}")
        names += match.group(1).split()
    return names


def taken_files(root: Path, build: Path) -> set[str]:
    """Everything that the build and the scripts took from the system."""
    return headers(build) | libraries(build) | build_tools(build) | script_commands(root, SCRIPTS)


def lacking(files: set[str], names: list[str]) -> dict[str, str]:
    """Packages that `files` are from and that `names` do not bring, each with one such file."""
    owner, brought = owners(), closure(names, installed_packages())
    missing: dict[str, str] = {}
    for path in sorted(files):
        for candidate in (path, str(Path(path).resolve())):
            package = owner.get(plain(candidate))
            if package is not None:
                break
        if package is not None and package not in brought:
            missing.setdefault(package, path)
    return missing
